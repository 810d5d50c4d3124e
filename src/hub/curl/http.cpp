#include "hub/curl/http.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>

#include "base/small_file.h"
#include "base/text.h"
#include "sluice/version.h"

namespace sluice::hub {
namespace {

constexpr int kMaxRedirects = 8;
constexpr uint64_t kMaxHeaders = 256 << 10, kMaxDropped = 256 << 10;
// A connection that brings nothing for so long is given up, and tried again.
constexpr long kConnectSeconds = 30, kStallSeconds = 60;

struct Address {
  std::string scheme, host, port;
  bool operator==(const Address&) const = default;
};

std::optional<Address> address_of(const std::string& url) {
  const std::unique_ptr<CURLU, void (*)(CURLU*)> parsed(curl_url(), curl_url_cleanup);
  if (parsed == nullptr || curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK) return std::nullopt;
  const auto part = [&parsed](CURLUPart which, unsigned flags) {
    char* text = nullptr;
    std::string out;
    if (curl_url_get(parsed.get(), which, &text, flags) == CURLUE_OK) out = text;
    curl_free(text);
    return out;
  };
  Address address{part(CURLUPART_SCHEME, 0), part(CURLUPART_HOST, 0), part(CURLUPART_PORT, CURLU_DEFAULT_PORT)};
  for (char& c : address.host) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return address;
}

// One request's state while libcurl calls back.
struct Exchange {
  const Request& request;
  CURL* handle;
  Response response;
  uint64_t header_bytes = 0, dropped_bytes = 0;
  std::optional<Error> error;
  bool stopped = false;  // on purpose
};

std::string_view after(std::string_view line, std::string_view name) {
  if (line.size() <= name.size()) return {};
  for (size_t i = 0; i < name.size(); ++i)
    if (std::tolower(static_cast<unsigned char>(line[i])) != name[i]) return {};
  return trim(line.substr(name.size()));
}

size_t on_header(char* data, size_t, size_t size, void* context) {
  auto& x = *static_cast<Exchange*>(context);
  if ((x.header_bytes += size) > kMaxHeaders) return 0;
  const std::string_view line(data, size);
  Response& r = x.response;
  if (line.starts_with("HTTP/")) r.etag.clear(), r.range.clear(), r.retry_s = 0;
  if (const auto v = after(line, "etag:"); !v.empty()) r.etag = v;
  if (const auto v = after(line, "content-range:"); !v.empty()) r.range = v;
  if (const auto v = after(line, "retry-after:"); !v.empty()) r.retry_s = leading_number<uint32_t>(v).value_or(0);
  return size;
}

size_t on_body(char* data, size_t, size_t size, void* context) {
  auto& x = *static_cast<Exchange*>(context);
  curl_easy_getinfo(x.handle, CURLINFO_RESPONSE_CODE, &x.response.status);
  if (!x.response.ok()) {  // what an error page says is dropped; it may have no end
    x.stopped = (x.dropped_bytes += size) > kMaxDropped;
    return x.stopped ? 0 : size;
  }
  auto more = x.request.on_body(x.response, std::as_bytes(std::span(data, size)));
  if (!more)
    x.error = std::move(more.error());
  else if (!*more)
    x.stopped = true;
  return x.error || x.stopped ? 0 : size;
}

int on_progress(void* context, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  auto& x = *static_cast<Exchange*>(context);
  if (x.error || x.request.go_on()) return 0;
  x.error = Error{Code::cancelled, "the download was cancelled; start it again to go on where it stopped"};
  return 1;
}

// What a certificate or its file is to blame for: trying again would not help.
std::optional<Error> trust_error(CURLcode code, const std::string& url, const char* detail, const Settings& settings) {
  if (code == CURLE_PEER_FAILED_VERIFICATION)
    return Error{Code::io,
                 fmt::format("the certificate of {} is not trusted ({}); if that is your own mirror, name its "
                             "certificate file in SSL_CERT_FILE",
                             host_of(url), printable(trim(detail), 200))};
  if (code == CURLE_SSL_CACERT_BADFILE)
    return Error{Code::io, fmt::format("no certificates can be read from {}; check SSL_CERT_FILE, or install "
                                       "ca-certificates",
                                       settings.ca_file.empty() ? "the system's file"
                                                                : "'" + printable_path(settings.ca_file) + "'")};
  return std::nullopt;
}

}  // namespace

std::string host_of(const std::string& url) {
  const auto address = address_of(url);
  if (!address) return printable(url);
  const bool usual = address->port == (address->scheme == "https" ? "443" : "80");
  return printable(usual ? address->host : address->host + ":" + address->port);
}

std::string escape_path(std::string_view path) {
  std::string out;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) || std::string_view("-._~/").find(c) != std::string_view::npos)
      out += c;
    else
      out += fmt::format("%{:02X}", byte);
  }
  return out;
}

void Client::Free::operator()(void* handle) const { curl_easy_cleanup(handle); }

Result<Client> Client::create(const Settings& settings) {
  static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
  Client client(settings);
  if (started == CURLE_OK) client.handle_.reset(curl_easy_init());
  if (client.handle_ == nullptr) return Error{Code::out_of_memory, "libcurl could not be started; free some memory"};
  const auto printable_ascii = [](char c) { return c > ' ' && c < 0x7f; };
  if (!std::all_of(settings.token.begin(), settings.token.end(), printable_ascii))
    return Error{Code::io, "HF_TOKEN holds a blank or a control character; set it to the token alone"};
  const auto address = address_of(settings.endpoint);
  if (!address || (address->scheme != "https" && address->scheme != "http"))
    return Error{Code::io,
                 fmt::format("'{}' is no address of a hub; set HF_ENDPOINT to one like https://huggingface.co",
                             printable(settings.endpoint, 200))};
  return client;
}

Result<Response> Client::get(const Request& request) {
  std::string url = request.url, next;
  const bool plain_allowed = address_of(settings_->endpoint)->scheme == "http";
  for (int n = 0; n <= kMaxRedirects; ++n) {
    Response response = TRY(get_once(request, url, next));
    const bool redirected = response.status >= 300 && response.status < 400 && !next.empty();
    if (!redirected) return response;
    const auto to = address_of(next);
    if (!to || (to->scheme != "https" && !(to->scheme == "http" && plain_allowed)))
      return Error{Code::io, fmt::format("{} redirects to '{}', which is not followed; check HF_ENDPOINT", host_of(url),
                                         printable(next, 120))};
    url = next;
  }
  return Error{Code::io,
               fmt::format("{} redirects more than {} times; check HF_ENDPOINT", host_of(request.url), kMaxRedirects)};
}

Result<Response> Client::get_once(const Request& request, const std::string& url, std::string& next) {
  CURL* const handle = static_cast<CURL*>(handle_.get());
  Exchange x{.request = request, .handle = handle, .response = {}, .error = {}};
  char detail[CURL_ERROR_SIZE] = "";
  curl_easy_reset(handle);  // keeps connections
  curl_easy_setopt(handle, CURLOPT_URL, url.c_str());
  curl_easy_setopt(handle, CURLOPT_USERAGENT, "sluice/" SLUICE_VERSION);
  curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, detail);
  curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(handle, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  curl_easy_setopt(handle, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(handle, CURLOPT_LOW_SPEED_TIME, kStallSeconds);
  curl_easy_setopt(handle, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(handle, CURLOPT_HEADERDATA, &x);
  curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(handle, CURLOPT_WRITEDATA, &x);
  curl_easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, on_progress);
  curl_easy_setopt(handle, CURLOPT_XFERINFODATA, &x);
  if (!settings_->ca_file.empty()) curl_easy_setopt(handle, CURLOPT_CAINFO, settings_->ca_file.c_str());
  const std::string range = fmt::format("{}-", request.from);
  if (request.from > 0) curl_easy_setopt(handle, CURLOPT_RANGE, range.c_str());
  // Only the hub itself gets the token: not where it redirects to, nor another port of its host.
  if (!settings_->token.empty() && address_of(url) == address_of(settings_->endpoint)) {
    curl_easy_setopt(handle, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
    curl_easy_setopt(handle, CURLOPT_XOAUTH2_BEARER, settings_->token.c_str());
  }
  const CURLcode code = curl_easy_perform(handle);
  if (x.error) return std::move(*x.error);
  if (auto untrusted = trust_error(code, url, detail, *settings_)) return std::move(*untrusted);
  curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &x.response.status);
  char* location = nullptr;
  curl_easy_getinfo(handle, CURLINFO_REDIRECT_URL, &location);
  next = location == nullptr ? "" : location;
  if (code != CURLE_OK && !x.stopped) x.response.broken = *detail != '\0' ? detail : curl_easy_strerror(code);
  return std::move(x.response);
}

}  // namespace sluice::hub
