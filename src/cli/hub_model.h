// Models that are named by their place on the hub.
#pragma once
#include <string>
#include <string_view>

#include "sluice/hub.h"

namespace sluice::cli {

// hf:OWNER/REPO or hf.co/OWNER/REPO. Longer addresses may be prompts.
bool names_a_hub_model(std::string_view argument);

// From HF_ENDPOINT, HF_TOKEN, HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME, HF_HUB_OFFLINE and SSL_CERT_FILE.
Result<hub::Settings> hub_settings();

// With a progress bar and notes on stderr. `ask_hub`: look for a newer revision even if the cache holds the model.
Result<hub::Model> get_hub_model(const std::string& name, bool ask_hub);

}  // namespace sluice::cli
