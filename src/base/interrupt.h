// Ctrl-C, other requests to end, and closed pipes.
#pragma once
#include <atomic>

namespace sluice {

// From here on the first Ctrl-C, SIGTERM or SIGHUP (unless that was ignored, as nohup does) only sets the flag, and a
// second one, while the flag is still set, ends the program at once with 128 + its number. Blocking reads return with
// EINTR. Called once, before threads start.
void catch_interrupts();
bool interrupted();
// Of the first signal: 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP.
int interrupt_exit_code();
// The program is to end: a signal other than Ctrl-C, which in a chat only stops the answer.
bool asked_to_end();
// Forgets the Ctrl-C: the next one is a first one again. Other signals stay.
void clear_interrupt();
// The flag itself, for loops in the library that poll it.
const std::atomic<bool>& interrupt_flag();

// Writing to a closed pipe then fails with EPIPE instead of ending the program.
void ignore_closed_pipes();
// Writing past the limit of file sizes then fails with EFBIG instead of ending the program.
void ignore_size_limits();
// The reader of stdout is gone: nobody will read what is written. False for files and terminals.
bool stdout_closed();

}  // namespace sluice
