#include "hub/remote.h"

#include <fmt/format.h>

#include "hub/curl/http.h"
#include "hub/curl/transfer.h"

namespace sluice::hub {
namespace {

constexpr size_t kMaxAnswer = 16u << 20;

std::string base_url(const Settings& settings) {
  return settings.endpoint.substr(0, settings.endpoint.find_last_not_of('/') + 1);
}

}  // namespace

struct Remote::State {
  const Settings& settings;
  const Listener& listener;
  std::string repo_id;
  Client client;
};

bool can_download() { return true; }

Remote::Remote(std::unique_ptr<State> state) : state_(std::move(state)) {}
Remote::Remote(Remote&&) noexcept = default;
Remote::~Remote() = default;

Result<Remote> Remote::connect(const Settings& settings, const Name& name, const Listener& listener) {
  if (settings.offline)
    return Error{Code::io, fmt::format("{} is not in the cache as asked for, and HF_HUB_OFFLINE forbids to connect; "
                                       "unset it",
                                       name.repo_id())};
  Client client = TRY(Client::create(settings));
  return Remote(std::make_unique<State>(State{settings, listener, name.repo_id(), std::move(client)}));
}

Result<Repository> Remote::read() {
  const Settings& settings = state_->settings;
  const std::string url = fmt::format("{}/api/models/{}/revision/main?blobs=true", base_url(settings), state_->repo_id);
  std::string text;
  Request request{.url = url};
  request.on_body = [&](const Response&, std::span<const std::byte> bytes) -> Result<bool> {
    if (text.size() + bytes.size() > kMaxAnswer)
      return Error{Code::corrupt_file, fmt::format("{} answers with more than {} MiB about {}; check HF_ENDPOINT",
                                                   host_of(url), kMaxAnswer >> 20, state_->repo_id)};
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return true;
  };
  request.go_on = [this] { return !state_->listener.on_progress || state_->listener.on_progress(0, 0); };
  Retries retries(settings, state_->listener, request.go_on);
  for (;;) {
    text.clear();
    const Response response = TRY(state_->client.get(request));
    if (response.ok() && response.broken.empty()) return parse_repository(text, state_->repo_id);
    // Nobody waits half a minute to learn that there is no network.
    const bool unreachable = response.status == 0;
    if (!response.transient() || unreachable || !TRY(retries.wait(host_of(url), response)))
      return response_error(settings, state_->repo_id, response);
  }
}

Result<void> Remote::fetch(const RepoFile& file, const std::string& commit, const std::string& blob,
                           const Meter& meter) {
  const std::string url =
      fmt::format("{}/{}/resolve/{}/{}", base_url(state_->settings), state_->repo_id, commit, escape_path(file.path));
  Transfer transfer(state_->settings, state_->repo_id, state_->client, file, url, meter);
  return transfer.run(blob);
}

}  // namespace sluice::hub
