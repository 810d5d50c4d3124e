#include "base/interrupt.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

namespace sluice {
namespace {

std::atomic<bool> flag{false};
std::atomic<int> first_signal{SIGINT};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free,
              "they are set in a signal handler");

extern "C" void on_interrupt(int number) {
  // Only calls that are safe in a signal handler.
  if (flag.load()) _exit(128 + number);
  first_signal.store(number);
  flag.store(true);
}

}  // namespace

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  action.sa_flags = 0;  // no SA_RESTART: a blocking read must return
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  struct sigaction before {};
  if (sigaction(SIGHUP, nullptr, &before) != 0 || before.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);
}

bool interrupted() { return flag.load(std::memory_order_relaxed); }
int interrupt_exit_code() { return 128 + first_signal.load(); }
bool asked_to_end() { return interrupted() && first_signal.load() != SIGINT; }
void clear_interrupt() {
  if (!asked_to_end()) flag.store(false);
}
const std::atomic<bool>& interrupt_flag() { return flag; }

void ignore_closed_pipes() { signal(SIGPIPE, SIG_IGN); }
void ignore_size_limits() { signal(SIGXFSZ, SIG_IGN); }

bool stdout_closed() {
  pollfd state{.fd = STDOUT_FILENO, .events = 0, .revents = 0};
  return poll(&state, 1, 0) > 0 && (state.revents & (POLLERR | POLLNVAL)) != 0;
}

}  // namespace sluice
