// HTTP through libcurl: one GET at a time, redirects followed here so that the token stays with the hub.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "sluice/hub.h"

namespace sluice::hub {

struct Response {
  long status = 0;       // 0: no answer came
  std::string broken;    // why the transfer ended before its end; empty: it did not
  std::string etag;      // as the server writes it
  std::string range;     // of Content-Range: "bytes 100-199/200"
  uint32_t retry_s = 0;  // of Retry-After

  bool ok() const { return status >= 200 && status < 300; }
  // Another attempt may do better.
  bool transient() const {
    return !broken.empty() || status == 408 || status == 429 || status == 500 || (status >= 502 && status <= 504);
  }
};

struct Request {
  std::string url;
  uint64_t from = 0;  // the first byte wanted
  // Bytes of a good answer. False: no more of it, please; that is no error.
  std::function<Result<bool>(const Response&, std::span<const std::byte>)> on_body;
  // Asked about once a second at least; false cancels.
  std::function<bool()> go_on;
};

class Client {
 public:
  static Result<Client> create(const Settings& settings);

  // An Error is final: cancelled, an Error of on_body, a certificate or a redirect that is not to be trusted.
  Result<Response> get(const Request& request);

 private:
  struct Free {
    void operator()(void* handle) const;
  };
  explicit Client(const Settings& settings) : settings_(&settings) {}
  Result<Response> get_once(const Request& request, const std::string& url, std::string& next);

  const Settings* settings_;
  std::unique_ptr<void, Free> handle_;
};

// "huggingface.co" or "127.0.0.1:8080", for messages.
std::string host_of(const std::string& url);
// A path as it stands in a URL.
std::string escape_path(std::string_view path);

}  // namespace sluice::hub
