#include "cli/route_counts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/text.h"
#include "cli/json_writer.h"

namespace sluice::cli {
namespace {

// Dark to light, as a terminal of 256 colours numbers them.
constexpr int kColours[] = {17, 18, 19, 25, 31, 37, 71, 107, 143, 179, 215, 221, 227};
constexpr const char* kBlocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

// The same scale for the image.
std::string image_colour(double share) {
  const auto mix = [&](double from, double to) { return static_cast<int>(std::lround(from + (to - from) * share)); };
  return share < 0.5 ? fmt::format("#{:02x}{:02x}{:02x}", mix(20, 70), mix(24, 260), mix(82, 190))
                     : fmt::format("#{:02x}{:02x}{:02x}", mix(-160, 250), mix(66, 225), mix(180, 60));
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

}  // namespace

Balance balance_of(const std::vector<int64_t>& counts) {
  Balance b;
  const double total = double(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
  if (total == 0) return b;
  for (const int64_t n : counts) {
    if (n == 0)
      ++b.n_unused;
    else
      b.entropy_bits -= double(n) / total * std::log2(double(n) / total);
  }
  b.entropy_share = counts.size() < 2 ? 1.0 : b.entropy_bits / std::log2(double(counts.size()));
  b.imbalance = double(*std::max_element(counts.begin(), counts.end())) * double(counts.size()) / total;
  return b;
}

void RouteCounts::add(const Routing& routing, size_t n_tokens) {
  n_used_ = routing.n_used;
  n_tokens_ += n_tokens;
  for (const auto& [idx, layer] : routing.layers) {
    std::vector<int64_t>& counts = layers_[idx];
    counts.resize(n_expert_);
    for (const uint32_t expert : layer.experts)
      if (expert < n_expert_) ++counts[expert];
  }
}

std::string RouteCounts::text(uint32_t width, bool colour) const {
  // "layer 12  CELLS  4.00 bits (99.9 %)  max/mean 1.23": the cells get what is left, several experts in one if need
  // be.
  const uint32_t room = std::max<uint32_t>(width, 60) - 48;
  const uint32_t per_cell = (n_expert_ + room - 1) / room;
  const uint32_t cell_width = std::clamp<uint32_t>(room / ((n_expert_ + per_cell - 1) / per_cell), 1, 2);
  std::string out =
      fmt::format("{} tokens, {} of {} experts each; one cell is {}, full: twice the mean or more\n", n_tokens_,
                  n_used_, n_expert_, per_cell == 1 ? "an expert" : fmt::format("{} experts", per_cell));
  for (const auto& [idx, counts] : layers_) {
    const double total = double(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
    std::string cells;
    for (uint32_t e = 0; e < n_expert_; e += per_cell) {
      const uint32_t end = std::min(e + per_cell, n_expert_);
      const int64_t sum = std::accumulate(counts.begin() + e, counts.begin() + end, int64_t{0});
      // Half the scale is the mean.
      const double level = total == 0 ? 0 : std::min(double(sum) / total * n_expert_ / double(end - e) / 2, 1.0);
      const int block = sum == 0 ? 0 : std::max(1, static_cast<int>(std::lround(level * 8)));
      if (colour) cells += fmt::format("\x1b[38;5;{}m", kColours[std::lround(level * double(std::size(kColours) - 1))]);
      for (uint32_t i = 0; i < cell_width; ++i) cells += kBlocks[block];
    }
    const Balance b = balance_of(counts);
    out += fmt::format("layer {:>3}  |{}{}|  {:.2f} bits ({:.1f} %)  max/mean {:.2f}", idx, cells,
                       colour ? "\x1b[0m" : "", b.entropy_bits, 100 * b.entropy_share, b.imbalance);
    out += b.n_unused == 0 ? "\n" : fmt::format("  {} unused\n", b.n_unused);
  }
  return out;
}

std::string RouteCounts::json() const {
  JsonWriter json;
  json.open('{')
      .field("n_tokens", n_tokens_)
      .field("n_expert", n_expert_)
      .field("n_used", n_used_)
      .key("layers")
      .open('{');
  for (const auto& [idx, counts] : layers_) {
    const Balance b = balance_of(counts);
    json.key(std::to_string(idx)).open('{').key("counts").list(counts).field("entropy_bits", b.entropy_bits);
    json.field("entropy_share", b.entropy_share).field("imbalance", b.imbalance).field("n_unused", b.n_unused).close();
  }
  return json.close().close().take();
}

std::string RouteCounts::svg(const std::string& model_name) const {
  const int cell = n_expert_ > 64 ? 8 : 20, left = 70, top = 50, right = 190;
  const int width = left + cell * static_cast<int>(n_expert_) + right,
            height = top + cell * static_cast<int>(layers_.size()) + 40;
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "font-family=\"sans-serif\" "
      "font-size=\"11\">\n<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n<text x=\"{2}\" y=\"20\" "
      "font-size=\"14\">{3}: experts "
      "used by {4} tokens</text>\n<text x=\"{2}\" y=\"38\" fill=\"#555555\">expert 0 to {5}, left to right; brightest: "
      "twice the mean "
      "or more</text>\n",
      width, height, left, escaped(model_name), n_tokens_, n_expert_ - 1);
  int y = top;
  for (const auto& [idx, counts] : layers_) {
    const double total = std::max(1.0, double(std::accumulate(counts.begin(), counts.end(), int64_t{0})));
    const int text_y = y + std::max(cell - 5, 7);
    out += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">layer {}</text>\n", left - 8, text_y, idx);
    for (uint32_t e = 0; e < n_expert_; ++e) {
      const double share = double(counts[e]) / total;
      out += fmt::format(
          "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"><title>layer {}, expert {}: {} times ({:.2f} "
          "%)</title></rect>\n",
          left + cell * static_cast<int>(e), y, cell - 1, cell - 1, image_colour(std::min(share * n_expert_ / 2, 1.0)),
          idx, e, counts[e], 100 * share);
    }
    const Balance b = balance_of(counts);
    out += fmt::format("<text x=\"{}\" y=\"{}\">{:.2f} bits, max/mean {:.2f}</text>\n",
                       left + cell * static_cast<int>(n_expert_) + 8, text_y, b.entropy_bits, b.imbalance);
    y += cell;
  }
  return out + "</svg>\n";
}

}  // namespace sluice::cli
