// y = act(gate) * up; what act is says `activation`:
//   kSilu: g / (1 + exp(-g)). Shazeer 2020.
//   kGeluTanh: g / (1 + exp(-2 u)), u = sqrt(2 / pi) (g + 0.044715 g^3), which is 0.5 g (1 + tanh(u)). Hendrycks 2016.
//   kClampedSwiglu: with g = min(gate, 7) and u = min(max(up, -7), 7) in their place, g / (1 + exp(-1.702 g)) * (u + 1)
// With `sel_expert`, row r of gate_bias and up_bias that is added to gate and up first is sel_expert[r].
// With `y_q8`, y is written there too, as lib/q8.h has it; then y itself may be null. y may alias gate or up.
// Grid: (ceil(n / 64), rows).
#pragma once
#include "lib/q8.h"
#include "lib/step.h"

KERNELS_BEGIN

#ifdef __SLANG__
public
static const uint kSilu = 0;
public
static const uint kClampedSwiglu = 1;
public
static const uint kGeluTanh = 2;
public
static const float kSwigluLimit = 7.0f;
public
static const float kSwigluSlope = 1.702f;
public
static const float kGeluSlope = 0.7978845608f;
public
static const float kGeluCube = 0.044715f;
#else
inline constexpr uint kSilu = 0;
inline constexpr uint kClampedSwiglu = 1;
inline constexpr uint kGeluTanh = 2;
inline constexpr float kSwigluLimit = 7.0f;
inline constexpr float kSwigluSlope = 1.702f;
inline constexpr float kGeluSlope = 0.7978845608f, kGeluCube = 0.044715f;
#endif

PUB struct SwigluArgs {
  PUB DEV_PTR(float) y;          // (rows, n) or null
  PUB DEV_PTR(uint) y_q8;        // (rows) of q8 rows, or null; n is a multiple of 32 where it is not
  PUB DEV_PTR(float) gate;       // (rows, n)
  PUB DEV_PTR(float) up;         // (rows, n)
  PUB DEV_PTR(float) gate_bias;  // (n_expert, n) or null
  PUB DEV_PTR(float) up_bias;    // (n_expert, n), null where gate_bias is
  PUB DEV_PTR(uint) sel_expert;  // (rows), null where gate_bias is
  PUB DEV_PTR(StepState) step;
  PUB Rows rows;
  PUB uint n;
  PUB uint activation;
};
ARGS_FIT(SwigluArgs)

KERNELS_END
