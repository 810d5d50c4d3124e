#include "hub/curl/transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "base/file_io.h"
#include "base/terminal.h"
#include "base/text.h"

namespace sluice::hub {
namespace {

constexpr uint32_t kMaxWaitSeconds = 60;
constexpr size_t kPiece = 1u << 20;

std::string what_happened(const Response& response) {
  if (!response.broken.empty()) return without_controls(response.broken.substr(0, 200));
  return fmt::format("HTTP status {}", response.status);
}

Error cancelled() { return {Code::cancelled, "the download was cancelled; start it again to go on where it stopped"}; }

}  // namespace

Result<bool> Retries::wait(const std::string& host, const Response& response) {
  if (n_failures_ >= settings_.n_retries) return false;
  const uint64_t own = uint64_t{settings_.retry_ms} << std::min(n_failures_++, 16u);
  const uint64_t asked = std::min(response.retry_s, kMaxWaitSeconds) * uint64_t{1000};
  const uint64_t wait_ms = std::max(std::min<uint64_t>(own, kMaxWaitSeconds * 1000), asked);
  if (listener_.on_note)
    listener_.on_note(
        fmt::format("{}: {}; trying again in {} s", host, what_happened(response), (wait_ms + 999) / 1000));
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(wait_ms);
  while (std::chrono::steady_clock::now() < end) {
    if (!go_on_()) return cancelled();
    std::this_thread::sleep_for(std::chrono::milliseconds(std::min<uint64_t>(wait_ms, 50)));
  }
  return true;
}

Error response_error(const Settings& settings, const std::string& repo_id, const Response& response) {
  const std::string host = host_of(settings.endpoint);
  switch (response.status) {
    case 401:
    case 403:
      if (settings.token.empty())
        return {Code::not_found,
                fmt::format("{} gives no access to {} (HTTP status {}); check the name, and set HF_TOKEN if "
                            "it is private or gated",
                            host, repo_id, response.status)};
      return {Code::not_found,
              fmt::format("{} gives HF_TOKEN no access to {} (HTTP status {}); check the name, the token, "
                          "and whether the model's terms must be accepted first",
                          host, repo_id, response.status)};
    case 404:
      return {Code::not_found, fmt::format("{} has no {}, or not for you; check the name", host, repo_id)};
    case 429:
      return {Code::io,
              fmt::format("{} answers no more for now (HTTP status 429); try again later, or set HF_TOKEN", host)};
    case 0:
      return {Code::io, fmt::format("cannot reach {}: {}; check the network, the proxy and HF_ENDPOINT", host,
                                    what_happened(response))};
    default:
      return {Code::io, fmt::format("{} did not give {}: {}; try again later, it goes on where it stopped", host,
                                    repo_id, what_happened(response))};
  }
}

Result<void> Transfer::Target::clear() {
  etag.clear();
  TRY(file.clear());
  return sum.restart();
}

Result<void> Transfer::run(const std::string& blob) {
  const std::string path = blob + ".incomplete";
  for (bool again = false;; again = true) {
    PartialFile file = TRY(PartialFile::open(path));
    const bool resumed = file.size() > 0;
    Target target{std::move(file), TRY(Checksum::create(file_.oid, file_.n_bytes)), {}};
    TRY(take_up(target, path));
    TRY(receive(target));
    if (TRY(target.sum.matches())) return target.file.commit(blob);
    target.file.remove();
    // What an earlier run or another program left may have been wrong: once more, from the start.
    if (resumed && !again && meter_.listener.on_note)
      meter_.listener.on_note("what was there of " + printable(file_.path, 200) + " is wrong: fetching it anew");
    if (!resumed || again)
      return Error{Code::corrupt_file,
                   fmt::format("{} does not have the checksum that the hub names, and was deleted; pull "
                               "it again, and if that does not help ask who publishes it",
                               printable(file_.path, 200))};
  }
}

// The bytes that are there already, for the checksum.
Result<void> Transfer::take_up(Target& target, const std::string& path) {
  if (target.file.size() > file_.n_bytes) TRY(target.clear());
  if (target.file.size() == 0) return {};
  const InputFile there = TRY(InputFile::open(path));
  std::vector<std::byte> piece(kPiece);
  for (uint64_t at = 0; at < target.file.size();) {
    const std::span<std::byte> part(piece.data(), std::min<uint64_t>(kPiece, target.file.size() - at));
    TRY(there.read_at(at, part));
    TRY(target.sum.add(part));
    at += part.size();
    if (!meter_.show(at)) return cancelled();
  }
  return {};
}

Result<void> Transfer::receive(Target& target) {
  const auto go_on = [this, &target] { return meter_.show(target.file.size()); };
  Retries retries(settings_, meter_.listener, go_on);
  uint64_t most = target.file.size();
  while (target.file.size() < file_.n_bytes) {
    const uint64_t from = target.file.size();
    bool started = false;
    Request request{.url = url_, .from = from};
    request.go_on = go_on;
    request.on_body = [&](const Response& response, std::span<const std::byte> bytes) -> Result<bool> {
      if (!started && !TRY(check_start(target, response, from))) return false;
      started = true;
      return accept(target, bytes);
    };
    Response response = TRY(client_.get(request));
    if (target.file.size() >= file_.n_bytes) return {};
    if (target.file.size() > most) retries.progressed();
    most = std::max(most, target.file.size());
    if (response.status == 416) TRY(target.clear());
    const bool hopeless = !response.ok() && !response.transient() && response.status != 416;
    if (response.ok() && response.broken.empty()) response.broken = "the file came incomplete";
    if (hopeless || !TRY(retries.wait(host_of(url_), response))) return response_error(settings_, repo_id_, response);
  }
  return {};
}

// Whether the first bytes of an answer go on where the file ends; a file that changed, or a server that does not do as
// asked, makes it start anew.
Result<bool> Transfer::check_start(Target& target, const Response& response, uint64_t from) {
  const bool changed = !target.etag.empty() && !response.etag.empty() && target.etag != response.etag;
  if (response.status == 206 && (changed || !response.range.starts_with(fmt::format("bytes {}-", from)))) {
    TRY(target.clear());
    return false;
  }
  if (response.status != 206 && from > 0) TRY(target.clear());
  target.etag = response.etag;
  return true;
}

Result<bool> Transfer::accept(Target& target, std::span<const std::byte> bytes) {
  if (bytes.size() > file_.n_bytes - target.file.size()) {
    target.file.remove();
    return Error{Code::corrupt_file,
                 fmt::format("{} is longer than the {} bytes that the hub names, and was deleted; pull "
                             "it again",
                             printable(file_.path, 200), file_.n_bytes)};
  }
  TRY(target.file.append(bytes));
  TRY(target.sum.add(bytes));
  return true;
}

}  // namespace sluice::hub
