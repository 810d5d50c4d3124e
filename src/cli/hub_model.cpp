#include "cli/hub_model.h"

#include <cstdlib>
#include <memory>

#include "base/interrupt.h"
#include "base/paths.h"
#include "base/small_file.h"
#include "base/text.h"
#include "cli/args.h"
#include "cli/output.h"

namespace sluice::cli {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// As the hub's own tools read switches.
bool is_on(const std::string& value) {
  return value == "1" || value == "ON" || value == "on" || value == "YES" || value == "yes" || value == "TRUE" ||
         value == "true";
}

}  // namespace

bool names_a_hub_model(std::string_view argument) {
  return argument.starts_with("hf:") || argument.starts_with("hf.co/");
}

Result<hub::Settings> hub_settings() {
  hub::Settings settings;
  if (const std::string endpoint = variable("HF_ENDPOINT"); !endpoint.empty()) settings.endpoint = endpoint;
  settings.token = trim(variable("HF_TOKEN"));
  settings.ca_file = variable("SSL_CERT_FILE");
  settings.offline = is_on(variable("HF_HUB_OFFLINE"));
  settings.cache = TRY(hub_cache_dir({.hub_cache = variable("HF_HUB_CACHE"),
                                      .hf_home = variable("HF_HOME"),
                                      .xdg_cache_home = variable("XDG_CACHE_HOME"),
                                      .home = variable("HOME")}));
  return settings;
}

Result<hub::Model> get_hub_model(const std::string& name, bool ask_hub) {
  const hub::Name parsed = TRY(hub::parse_name(name));
  const hub::Settings settings = TRY(hub_settings());
  std::unique_ptr<ProgressBar> bar;
  hub::Listener listener;
  listener.on_progress = [&bar](uint64_t done, uint64_t total) {
    if (bar == nullptr && total > 0) bar = std::make_unique<ProgressBar>("pull", total, "B", bar_options());
    if (bar != nullptr) bar->update(done);
    return !interrupted();
  };
  listener.on_note = [&bar](const std::string& line) {
    bar.reset();  // its line is free for the note
    note("{}", line);
  };
  return ask_hub ? hub::pull(settings, parsed, listener) : hub::find_or_pull(settings, parsed, listener);
}

}  // namespace sluice::cli
