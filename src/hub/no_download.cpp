// What stands for the network where libcurl or OpenSSL was missing when the build was configured.
#include "hub/remote.h"

#if !SLUICE_HAVE_CURL

namespace sluice::hub {
namespace {

Error cannot_download() {
  return {Code::unsupported,
          "this build cannot download: libcurl and OpenSSL were missing; install libcurl4-openssl-dev "
          "and libssl-dev and configure it again, or give a file's path"};
}

}  // namespace

struct Remote::State {};

bool can_download() { return false; }
Remote::Remote(std::unique_ptr<State> state) : state_(std::move(state)) {}
Remote::Remote(Remote&&) noexcept = default;
Remote::~Remote() = default;
Result<Remote> Remote::connect(const Settings&, const Name&, const Listener&) { return cannot_download(); }
Result<Repository> Remote::read() { return cannot_download(); }
Result<void> Remote::fetch(const RepoFile&, const std::string&, const std::string&, const Meter&) {
  return cannot_download();
}

}  // namespace sluice::hub

#endif
