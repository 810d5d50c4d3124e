#include "cli/bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/text.h"
#include "cli/json_writer.h"
#include "cli/output.h"
#include "sluice/gguf.h"

namespace sluice::cli {
namespace {

// A stage in all repeats of a test. "host" is what lies between the runs of a step's launches, "total" is everything.
struct Stage {
  std::string name;
  double seconds = 0;
  StageCost cost;
  double least_seconds = 0;  // that the limits allow; NAN where one that matters is not known
};

double time_of(double amount, double per_second) {
  if (amount == 0) return 0;
  return per_second > 0 ? amount / per_second : NAN;
}

double least_seconds(const StageCost& cost, const Limits& limits) {
  const double memory = time_of(cost.bytes, limits.read_bytes);
  const double arithmetic =
      time_of(cost.int8_operations, limits.int8_operations) + time_of(cost.f32_operations, limits.f32_operations);
  return std::isnan(memory) || std::isnan(arithmetic) ? NAN : std::max(memory, arithmetic);
}

std::vector<Stage> stages_of(const BenchResult& r, const Limits& limits) {
  std::vector<Stage> stages;
  const auto n_repeat = double(r.seconds.size());
  Stage total{.name = "total", .seconds = r.total_seconds()};
  double in_stages = 0;
  for (size_t i = 0; i < std::min(r.costs.size(), r.stages.size()); ++i) {
    Stage stage{r.stages[i].first, r.stages[i].second, r.costs[i]};
    stage.cost.bytes *= n_repeat;
    stage.cost.int8_operations *= n_repeat;
    stage.cost.f32_operations *= n_repeat;
    stage.least_seconds = least_seconds(stage.cost, limits);
    in_stages += stage.seconds;
    total.cost.bytes += stage.cost.bytes;
    total.cost.int8_operations += stage.cost.int8_operations;
    total.cost.f32_operations += stage.cost.f32_operations;
    total.least_seconds += stage.least_seconds;
    stages.push_back(std::move(stage));
  }
  stages.push_back({.name = "host", .seconds = std::max(0.0, total.seconds - in_stages)});
  stages.push_back(std::move(total));
  return stages;
}

double operations(const StageCost& cost) { return cost.int8_operations + cost.f32_operations; }

// Weights and cache that a decoded token reads (its part of them where several are decoded together); NAN for prefill.
double bytes_per_token(const BenchResult& r) {
  if (r.test.kind == BenchTest::Kind::prefill) return NAN;
  double bytes = 0;
  for (const StageCost& cost : r.costs) bytes += cost.bytes;
  return bytes / double(r.test.n_counted());
}

double memory_share(const BenchResult& r, const Limits& limits) {
  return time_of(bytes_per_token(r), limits.read_bytes) * r.n_counted() / r.total_seconds();
}

std::string or_dash(double value, std::string text) {
  return std::isfinite(value) && value > 0 ? std::move(text) : "-";
}
std::string percent(double share) { return or_dash(share, fmt::format("{:.1f} %", 100 * share)); }
std::string number(double value, int digits) { return or_dash(value, fmt::format("{:.{}f}", value, digits)); }

}  // namespace

BenchReport::BenchReport(const LoadedModel& model, const EngineOptions& options, const Limits& limits)
    : engine_(*model.engine),
      limits_(limits),
      n_ubatch_(model.engine->info().n_ubatch),
      naive_routing_(options.naive_routing) {
  describe(model.path);
}

// "lfm2moe 30M-A11M Q4_0": the type most weights have.
void BenchReport::describe(const std::string& path) {
  const auto file = gguf::File::open(path, {.metadata_only = true});
  name_ = printable(engine_.model().architecture, 24);
  if (!file) return;
  if (const auto label = file->get_string("general.size_label")) name_ += " " + printable(*label, 16);
  std::map<std::string_view, uint64_t> bytes;
  for (const gguf::TensorInfo& t : file->tensors())
    if (t.type != nullptr) bytes[t.type->name] += t.n_bytes;
  std::string_view most;
  for (const auto& [type, n] : bytes)
    if (most.empty() || n > bytes[most]) most = type;
  name_ += fmt::format(" {}", most);
}

std::string BenchReport::header() const {
  return fmt::format(
      "| {:<30} | {:>10} | {:>10} | {:<10} | {:>7} | {:>16} | {:>20} | {:>9} | {:>9} | {:>8} | {:>8} |\n"
      "| {:-<30} | {:->9}: | {:->9}: | {:-<10} | {:->6}: | {:->15}: | {:->19}: | {:->8}: | {:->8}: | "
      "{:->7}: | {:->7}: |\n",
      "model", "size", "params", "backend", "threads", "test", "t/s", "MB/token", "of memory", "reads", "submits", "",
      "", "", "", "", "", "", "", "", "", "");
}

std::string BenchReport::row(const BenchResult& r) const {
  const ModelInfo& model = engine_.model();
  const EngineInfo& info = engine_.info();
  return fmt::format(
      "| {:<30} | {:>10} | {:>10} | {:<10} | {:>7} | {:>16} | {:>20} | {:>9} | {:>9} | {:>8.3f} | {:>8.3f} |\n", name_,
      bytes_text(double(model.file_bytes), true), count_text(double(model.n_parameters)), info.backend, info.n_threads,
      r.test.name(), fmt::format("{:.2f} ± {:.2f}", r.mean_speed(), r.speed_spread()),
      number(bytes_per_token(r) / 1e6, 2), percent(memory_share(r, limits_)),
      double(r.counters.host_reads) / r.n_counted(), double(r.counters.submits) / r.n_counted());
}

std::string BenchReport::stages(std::span<const BenchResult> results) const {
  std::string out =
      fmt::format("\nlimits, measured: {} GB/s of memory read, {} int8 GOPS, {} f32 GFLOPS ({} threads, {})\n\n",
                  number(limits_.read_bytes / 1e9, 1), number(limits_.int8_operations / 1e9, 0),
                  number(limits_.f32_operations / 1e9, 0), engine_.info().n_threads, engine_.info().isa);
  out += fmt::format(
      "| {:>16} | {:<11} | {:>9} | {:>7} | {:>9} | {:>7} | {:>7} | {:>8} |\n"
      "| {:->15}: | {:-<11} | {:->8}: | {:->6}: | {:->8}: | {:->6}: | {:->6}: | {:->7}: |\n",
      "test", "stage", "us/token", "of time", "MB/token", "GB/s", "GOPS", "of limit", "", "", "", "", "", "", "", "");
  for (const BenchResult& r : results) {
    const double n = r.n_counted(), total = r.total_seconds();
    for (const Stage& s : stages_of(r, limits_)) {
      out += fmt::format("| {:>16} | {:<11} | {:>9} | {:>7} | {:>9} | {:>7} | {:>7} | {:>8} |\n", r.test.name(), s.name,
                         number(1e6 * s.seconds / n, 2), percent(s.seconds / total), number(s.cost.bytes / n / 1e6, 3),
                         number(s.cost.bytes / s.seconds / 1e9, 1), number(operations(s.cost) / s.seconds / 1e9, 1),
                         percent(s.least_seconds / s.seconds));
    }
  }
  return out;
}

std::string BenchReport::json(std::span<const BenchResult> results) const {
  const ModelInfo& model = engine_.model();
  const EngineInfo& info = engine_.info();
  const auto known = [](double value) { return value > 0 ? value : NAN; };  // else null
  JsonWriter json;
  json.open('{').field("model", name_).field("path", model.path);
  json.field("model_bytes", model.file_bytes).field("n_parameters", model.n_parameters);
  json.field("backend", info.backend).field("device", info.device).field("isa", info.isa);
  json.field("threads", info.n_threads)
      .field("n_ubatch", n_ubatch_)
      .field("naive_routing", naive_routing_)
      .key("limits")
      .open('{');
  json.field("read_bytes_per_second", known(limits_.read_bytes));
  json.field("int8_operations_per_second", known(limits_.int8_operations));
  json.field("f32_operations_per_second", known(limits_.f32_operations)).close().key("tests").open('[');
  for (const BenchResult& r : results) {
    const double n = r.n_counted();
    json.open('{').field("test", r.test.name()).field("n_tokens", r.test.n_tokens).field("n_depth", r.test.n_depth);
    json.field("n_parallel", r.test.n_parallel).field("avg_ts", r.mean_speed()).field("stddev_ts", r.speed_spread());
    json.key("samples_ts").open('[');
    for (const double s : r.seconds) json.value(double(r.test.n_counted()) / s);
    json.close().key("samples_seconds").list(r.seconds);
    json.field("bytes_per_token", bytes_per_token(r)).field("memory_share", memory_share(r, limits_));
    json.field("host_reads_per_token", double(r.counters.host_reads) / n);
    json.field("host_read_bytes_per_token", double(r.counters.host_read_bytes) / n);
    json.field("submits_per_token", double(r.counters.submits) / n).key("stages").open('{');
    for (const Stage& s : stages_of(r, limits_)) {
      json.key(s.name).open('{').field("seconds", s.seconds).field("bytes", s.cost.bytes);
      json.field("int8_operations", s.cost.int8_operations).field("f32_operations", s.cost.f32_operations);
      json.field("limit_share", known(s.least_seconds / s.seconds)).close();
    }
    json.close().close();
  }
  return json.close().close().take();
}

}  // namespace sluice::cli
