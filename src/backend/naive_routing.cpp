#include "backend/naive_routing.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>

#include "kernels/all_contracts.h"

namespace sluice::backend {
namespace {

// A table of addresses in the order of the entries, in place of one in the order of the experts.
struct Picked {
  std::vector<uint64_t> experts;  // all addresses, as the host knows them
  Buffer entries;                 // u64 (n_entries), written by the host
};

// What the host does after a gate.
struct Pick {
  Buffer ids;  // u32 (n_entries) that moe_route wrote, where the host can read
  std::vector<Picked> tables;
};

uint32_t n_entries(const Pick& pick) { return static_cast<uint32_t>(pick.ids.size() / sizeof(uint32_t)); }

struct Piece {
  std::unique_ptr<Plan> plan;
  std::optional<Pick> pick;
};

struct NaivePlan final : Plan {
  Buffer identity;  // u32: 0, 1, 2 ...
  std::vector<Piece> pieces;
};

template <class Args>
void set_args(Launch& launch, const Args& args) {
  std::memcpy(launch.args, &args, sizeof args);
}

// Has a kernel that reads a layer's ids, if it is one, read those that the host has.
void read_ids(Launch& launch, uint64_t ids) {
  const auto point = [&]<class Args>(Args args) {
    if (args.sel_expert) args.sel_expert = {ids};
    set_args(launch, args);
  };
  if (launch.key.id == KernelId::moe_group) point(args_of<kernels::MoeGroupArgs>(launch));
  if (launch.key.id == KernelId::swiglu) point(args_of<kernels::SwigluArgs>(launch));
  if (launch.key.id == KernelId::moe_combine) point(args_of<kernels::MoeCombineArgs>(launch));
}

// Of one expert there is nothing to pick: it is the gate of a shared one.
bool picks(const Launch& launch) {
  return launch.key.id == KernelId::moe_route && args_of<kernels::MoeRouteArgs>(launch).n_expert > 1;
}

class NaiveRouting final : public Backend {
 public:
  explicit NaiveRouting(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}

  Result<std::unique_ptr<Plan>> prepare(std::span<const Launch> launches) override;
  Ticket run(Plan& base) override;
  Result<void> wait(Ticket ticket) override {
    if (failed_) {
      Error error = std::move(*failed_);
      failed_.reset();
      return error;
    }
    return inner_->wait(ticket);
  }

  const Caps& caps() const override { return inner_->caps(); }
  std::optional<FreeMemory> free_memory() const override { return inner_->free_memory(); }
  Result<Buffer> allocate(size_t n_bytes, Use use) override { return inner_->allocate(n_bytes, use); }
  Result<Buffer> adopt(std::span<const std::byte> bytes, Use use) override { return inner_->adopt(bytes, use); }
  Result<void> upload(uint64_t to, std::span<const std::byte> bytes) override { return inner_->upload(to, bytes); }
  Result<void> download(std::span<std::byte> bytes, uint64_t from) override { return inner_->download(bytes, from); }
  Result<void> copy(uint64_t to, uint64_t from, size_t n) override { return inner_->copy(to, from, n); }
  bool has(const KernelKey& key) const override { return inner_->has(key); }
  Counters counters() const override { return inner_->counters(); }
  void profile(bool on) override { inner_->profile(on); }
  std::vector<double> stage_seconds() override { return inner_->stage_seconds(); }
  Limits measure_limits() override { return inner_->measure_limits(); }

 private:
  Result<uint64_t> table_for(Pick& pick, uint64_t expert_addr, uint32_t n_expert);
  Result<void> read_and_pick(const Pick& pick);

  std::unique_ptr<Backend> inner_;
  std::optional<Error> failed_;  // of a run(), told by the next wait()
};

// The address of a table by entry that stands in for the one at expert_addr.
Result<uint64_t> NaiveRouting::table_for(Pick& pick, uint64_t expert_addr, uint32_t n_expert) {
  Picked table;
  table.experts.resize(n_expert);
  TRY(inner_->download(std::as_writable_bytes(std::span(table.experts)), expert_addr));
  table.entries = TRY(inner_->allocate(n_entries(pick) * sizeof(uint64_t), Use::staging));
  pick.tables.push_back(std::move(table));
  return pick.tables.back().entries.address();
}

// The ids go where the host reads them, and products of single entries find the weights that it has picked. Products
// grouped by expert keep their table: for them the host waits, and the device sorts.
Result<std::unique_ptr<Plan>> NaiveRouting::prepare(std::span<const Launch> launches) {
  auto plan = std::make_unique<NaivePlan>();
  uint32_t most_entries = 0;
  for (const Launch& launch : launches) {
    if (picks(launch))
      most_entries = std::max(most_entries, launch.grid.x * args_of<kernels::MoeRouteArgs>(launch).n_used);
  }
  std::vector<uint32_t> identity(most_entries);
  std::iota(identity.begin(), identity.end(), 0u);
  if (most_entries != 0) {
    plan->identity = TRY(inner_->allocate(most_entries * sizeof(uint32_t), Use::activations));
    TRY(inner_->upload(plan->identity.address(), std::as_bytes(std::span(identity))));
  }
  std::vector<Launch> piece;
  Pick* pick = nullptr;  // of the layer that is being read
  const auto end_piece = [&](std::optional<Pick> after) -> Result<void> {
    if (piece.empty()) return {};
    plan->pieces.push_back({TRY(inner_->prepare(piece)), std::move(after)});
    piece.clear();
    return {};
  };
  plan->pieces.reserve(launches.size());  // `pick` points into it
  for (Launch launch : launches) {
    if (picks(launch)) {
      auto args = args_of<kernels::MoeRouteArgs>(launch);
      Pick fresh;
      fresh.ids = TRY(inner_->allocate(uint64_t{launch.grid.x} * args.n_used * sizeof(uint32_t), Use::readback));
      args.sel_expert = {fresh.ids.address()};
      set_args(launch, args);
      piece.push_back(launch);
      TRY(end_piece(std::move(fresh)));
      pick = &*plan->pieces.back().pick;
      continue;
    }
    if (pick != nullptr) read_ids(launch, pick->ids.address());
    if (launch.key.id == KernelId::moe_gemv && pick != nullptr) {
      auto args = args_of<kernels::MoeGemvArgs>(launch);
      args.expert_addr = {TRY(table_for(*pick, args.expert_addr.address, args.n_expert))};
      args.sel_expert = {plan->identity.address()};
      args.n_expert = n_entries(*pick);
      set_args(launch, args);
    }
    if (launch.key.id == KernelId::moe_gate_up && pick != nullptr) {
      auto args = args_of<kernels::MoeGateUpArgs>(launch);
      args.sel_expert = {pick->ids.address()};
      if (args.order.address == 0) {
        args.gate_addr = {TRY(table_for(*pick, args.gate_addr.address, args.n_expert))};
        args.up_addr = {TRY(table_for(*pick, args.up_addr.address, args.n_expert))};
        args.sel_expert = {plan->identity.address()};
        args.n_expert = n_entries(*pick);
      }
      set_args(launch, args);
    }
    piece.push_back(launch);
    if (launch.key.id == KernelId::moe_combine && pick != nullptr) {
      TRY(end_piece(std::nullopt));
      pick = nullptr;
    }
  }
  TRY(end_piece(std::nullopt));
  return std::unique_ptr<Plan>(std::move(plan));
}

Ticket NaiveRouting::run(Plan& base) {
  Ticket ticket;
  for (Piece& piece : static_cast<NaivePlan&>(base).pieces) {
    ticket = inner_->run(*piece.plan);
    if (!piece.pick || failed_) continue;
    auto done = inner_->wait(ticket);
    if (done) done = read_and_pick(*piece.pick);
    if (!done) failed_ = std::move(done.error());
  }
  return ticket;
}

Result<void> NaiveRouting::read_and_pick(const Pick& pick) {
  std::vector<uint32_t> ids(n_entries(pick));
  TRY(inner_->download(std::as_writable_bytes(std::span(ids)), pick.ids.address()));
  std::vector<uint64_t> entries(ids.size());
  for (const Picked& table : pick.tables) {
    // Rows beyond the step's tokens hold what was there before.
    for (size_t i = 0; i < ids.size(); ++i) entries[i] = ids[i] < table.experts.size() ? table.experts[ids[i]] : 0;
    TRY(inner_->upload(table.entries.address(), std::as_bytes(std::span(entries))));
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Backend>> naive_routing(std::unique_ptr<Backend> inner) {
  if (inner->caps().unified) {
    return Error(
        Code::unsupported,
        "naive routing shows what it costs to ask the host, and here all work is the host's; use a GPU backend");
  }
  return std::unique_ptr<Backend>(std::make_unique<NaiveRouting>(std::move(inner)));
}

}  // namespace sluice::backend
