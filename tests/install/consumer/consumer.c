/* The C header alone, from C: it must compile, and its library must link. */
#include "sluice/sluice.h"

int main(void) { return 0; }
