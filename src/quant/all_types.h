// Includes the header of every type that has one. The list is that of the published types, so that a new type needs its
// header and its row in types.inc, and no line here.
#pragma once
#include "quant/bf16.h"
#include "quant/f16.h"
#include "quant/f32.h"

#if __has_include("quant/q4_0.h")
#include "quant/q4_0.h"
#endif
#if __has_include("quant/q4_1.h")
#include "quant/q4_1.h"
#endif
#if __has_include("quant/q5_0.h")
#include "quant/q5_0.h"
#endif
#if __has_include("quant/q5_1.h")
#include "quant/q5_1.h"
#endif
#if __has_include("quant/q8_0.h")
#include "quant/q8_0.h"
#endif
#if __has_include("quant/q8_1.h")
#include "quant/q8_1.h"
#endif
#if __has_include("quant/q2_k.h")
#include "quant/q2_k.h"
#endif
#if __has_include("quant/q3_k.h")
#include "quant/q3_k.h"
#endif
#if __has_include("quant/q4_k.h")
#include "quant/q4_k.h"
#endif
#if __has_include("quant/q5_k.h")
#include "quant/q5_k.h"
#endif
#if __has_include("quant/q6_k.h")
#include "quant/q6_k.h"
#endif
#if __has_include("quant/q8_k.h")
#include "quant/q8_k.h"
#endif
#if __has_include("quant/iq1_s.h")
#include "quant/iq1_s.h"
#endif
#if __has_include("quant/iq1_m.h")
#include "quant/iq1_m.h"
#endif
#if __has_include("quant/iq2_xxs.h")
#include "quant/iq2_xxs.h"
#endif
#if __has_include("quant/iq2_xs.h")
#include "quant/iq2_xs.h"
#endif
#if __has_include("quant/iq2_s.h")
#include "quant/iq2_s.h"
#endif
#if __has_include("quant/iq3_xxs.h")
#include "quant/iq3_xxs.h"
#endif
#if __has_include("quant/iq3_s.h")
#include "quant/iq3_s.h"
#endif
#if __has_include("quant/iq4_nl.h")
#include "quant/iq4_nl.h"
#endif
#if __has_include("quant/iq4_xs.h")
#include "quant/iq4_xs.h"
#endif
#if __has_include("quant/tq1_0.h")
#include "quant/tq1_0.h"
#endif
#if __has_include("quant/tq2_0.h")
#include "quant/tq2_0.h"
#endif
#if __has_include("quant/mxfp4.h")
#include "quant/mxfp4.h"
#endif
#if __has_include("quant/nvfp4.h")
#include "quant/nvfp4.h"
#endif
