// Models with reference outputs: those beside the checkout where they are, else the ones in tests/fixtures.
#pragma once
#include <cstdint>
#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include "sluice/engine.h"
#include "support/source_dir.h"

namespace sluice::test {

struct OracleModel {
  std::string name, architecture;
  std::string type;  // of its weights, as the name ends: "Q4_K"; none for F32
  std::filesystem::path file;
  double row_median = 0;  // the peer's, 0 where it computes in F32
  double forced = 0;      // the peer's NMSE with the reference's experts

  // `part` "": 64 tokens; ".long": 160, which some models have.
  std::vector<Token> tokens(const std::string& part = "") const;
  bool has_long() const;
  std::vector<Token> greedy() const;
  std::vector<float> logits(size_t& n_rows, size_t& n_vocab, const std::string& part = "") const;
  Routing routing() const;  // no layers for a dense model
};

inline void PrintTo(const OracleModel& model, std::ostream* out) { *out << model.name; }

// Those whose architecture and types this version supports.
std::vector<OracleModel> oracle_models();
// n tokens below 300, the same for the same seed.
std::vector<Token> ids(uint32_t seed, size_t n);

double nmse(std::span<const float> a, std::span<const float> reference);
// The median over rows of each row's NMSE.
double row_median_nmse(std::span<const float> a, std::span<const float> reference, size_t n_columns);

}  // namespace sluice::test
