// The version of these headers; CMakeLists.txt states the same one, and a test compares them.
#pragma once

#define SLUICE_VERSION "0.1.0"
