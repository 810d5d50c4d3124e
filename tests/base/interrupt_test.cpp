#include "base/interrupt.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace sluice {
namespace {

// The exit code of `body` run in a child; negative: the signal that ended it.
template <class Body>
int in_child(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(77);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(Interrupt, FirstSetsTheFlagSecondEnds) {
  EXPECT_EQ(in_child([] {
              catch_interrupts();
              if (interrupted()) _exit(1);
              raise(SIGINT);
              if (!interrupted() || !interrupt_flag()) _exit(2);
              raise(SIGINT);
            }),
            130);
}

TEST(Interrupt, ClearedFlagMakesTheNextOneAFirst) {
  EXPECT_EQ(in_child([] {
              catch_interrupts();
              for (int i = 0; i < 3; ++i) {
                raise(SIGINT);
                if (!interrupted()) _exit(1);
                clear_interrupt();
                if (interrupted()) _exit(2);
              }
              _exit(0);
            }),
            0);
}

TEST(Interrupt, OtherSignalsCountAndStay) {
  for (const int number : {SIGTERM, SIGHUP}) {
    EXPECT_EQ(in_child([number] {
                catch_interrupts();
                raise(number);
                if (!interrupted() || !asked_to_end() || interrupt_exit_code() != 128 + number) _exit(1);
                clear_interrupt();
                if (!interrupted()) _exit(2);
                raise(number);
              }),
              128 + number);
  }
}

TEST(Interrupt, AnIgnoredHangUpStaysIgnored) {
  EXPECT_EQ(in_child([] {
              signal(SIGHUP, SIG_IGN);
              catch_interrupts();
              raise(SIGHUP);
              _exit(interrupted() ? 1 : 0);
            }),
            0);
}

TEST(Interrupt, BlockingReadReturns) {
  EXPECT_EQ(in_child([] {
              catch_interrupts();
              int ends[2];
              if (pipe(ends) != 0) _exit(1);
              const pid_t self = getpid();
              const pid_t other = fork();
              if (other == 0) {
                usleep(300'000);
                kill(self, SIGINT);
                _exit(0);
              }
              char byte;
              const bool returned = read(ends[0], &byte, 1) == -1 && errno == EINTR;
              waitpid(other, nullptr, 0);
              _exit(returned && interrupted() ? 0 : 2);
            }),
            0);
}

TEST(ClosedPipe, GivesEpipeAndIsSeen) {
  EXPECT_EQ(in_child([] {
              int ends[2];
              if (pipe(ends) != 0) _exit(1);
              dup2(ends[1], STDOUT_FILENO);
              close(ends[1]);
              ignore_closed_pipes();
              if (stdout_closed()) _exit(2);
              close(ends[0]);
              if (!stdout_closed()) _exit(3);
              if (write(STDOUT_FILENO, "x", 1) != -1 || errno != EPIPE) _exit(4);
              _exit(0);
            }),
            0);
}

}  // namespace
}  // namespace sluice
