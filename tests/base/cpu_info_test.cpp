#include "base/cpu_info.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

namespace sluice {
namespace {

namespace fs = std::filesystem;

// A faked /sys and /proc, removed at the end of the test.
class FakeSystem {
 public:
  FakeSystem() {
    static int count = 0;
    root_ = fs::temp_directory_path() / ("sluice_cpu_" + std::to_string(getpid()) + "_" + std::to_string(count++));
    fs::create_directories(root_);
    write("proc/cpuinfo", "processor\t: 0\nmodel name\t: Fake 9000\n");
  }
  ~FakeSystem() {
    std::error_code error;
    fs::remove_all(root_, error);
  }
  FakeSystem& write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
    return *this;
  }
  FakeSystem& cpu(int number, const std::string& file, const std::string& text) {
    return write("sys/devices/system/cpu/cpu" + std::to_string(number) + "/" + file, text + "\n");
  }
  FakeSystem& online(const std::string& list) { return write("sys/devices/system/cpu/online", list + "\n"); }
  SystemProbe probe(std::vector<uint32_t> affinity = {}) const {
    SystemProbe p{.sys_root = (root_ / "sys").string(), .proc_root = (root_ / "proc").string(), .affinity = affinity};
    return p;
  }

 private:
  fs::path root_;
};

// 4 cores, 8 threads; cpu i and i + 4 share a core.
void make_smt(FakeSystem& system) {
  system.online("0-7");
  for (int i = 0; i < 8; ++i)
    system.cpu(i, "topology/core_cpus_list", std::to_string(i % 4) + "," + std::to_string(i % 4 + 4));
}

// 2 fast cores with 2 threads each (0-3) and 4 slow cores (4-7).
void make_hybrid(FakeSystem& system) {
  system.online("0-7");
  for (int i = 0; i < 4; ++i) system.cpu(i, "topology/core_cpus_list", i < 2 ? "0-1" : "2-3");
  for (int i = 4; i < 8; ++i) system.cpu(i, "topology/core_cpus_list", std::to_string(i));
}

TEST(CpuList, Forms) {
  EXPECT_EQ(parse_cpu_list("0-3,5\n"), (std::vector<uint32_t>{0, 1, 2, 3, 5}));
  EXPECT_EQ(parse_cpu_list("7"), (std::vector<uint32_t>{7}));
  EXPECT_EQ(parse_cpu_list("3,1,1-2"), (std::vector<uint32_t>{1, 2, 3}));
  EXPECT_TRUE(parse_cpu_list("").empty());
  EXPECT_TRUE(parse_cpu_list("x,-,5-3,0-99999999999").empty());
  EXPECT_TRUE(parse_cpu_list("0-4000000000").empty());
}

TEST(CpuInfo, SmtCountsCores) {
  FakeSystem system;
  make_smt(system);
  const CpuInfo info = read_cpu_info(system.probe());
  EXPECT_EQ(info.model, "Fake 9000");
  EXPECT_EQ(info.n_logical, 8u);
  EXPECT_EQ(info.n_physical, 4u);
  EXPECT_EQ(info.n_fast, 4u);
  EXPECT_EQ(info.n_allowed, 8u);
  EXPECT_EQ(info.n_default_threads, 4u);
  EXPECT_EQ(info.fast_cpus, (std::vector<uint32_t>{0, 1, 2, 3}));
  EXPECT_EQ(info.reason, "4 physical cores of 8 cpus");
}

TEST(CpuInfo, OlderKernelNamesSiblings) {
  FakeSystem system;
  system.online("0-3");
  for (int i = 0; i < 4; ++i) system.cpu(i, "topology/thread_siblings_list", i < 2 ? "0-1" : "2-3");
  EXPECT_EQ(read_cpu_info(system.probe()).n_default_threads, 2u);
}

TEST(CpuInfo, CoreIdsArePerPackage) {
  FakeSystem system;
  system.online("0-3");
  for (int i = 0; i < 4; ++i)
    system.cpu(i, "topology/core_id", std::to_string(i % 2))
        .cpu(i, "topology/physical_package_id", std::to_string(i / 2));
  EXPECT_EQ(read_cpu_info(system.probe()).n_default_threads, 4u);
}

TEST(CpuInfo, AffinityLimitsCores) {
  FakeSystem system;
  make_smt(system);
  EXPECT_EQ(read_cpu_info(system.probe({0, 4})).n_default_threads, 1u);  // both threads of one core
  const CpuInfo info = read_cpu_info(system.probe({5, 6}));
  EXPECT_EQ(info.n_default_threads, 2u);
  EXPECT_EQ(info.fast_cpus, (std::vector<uint32_t>{5, 6}));
  EXPECT_EQ(info.reason, "2 physical cores of 8 cpus, affinity allows 2 cpus");
}

TEST(CpuInfo, HybridByKernelList) {
  FakeSystem system;
  make_hybrid(system);
  system.write("sys/devices/cpu_core/cpus", "0-3\n").write("sys/devices/cpu_atom/cpus", "4-7\n");
  const CpuInfo info = read_cpu_info(system.probe());
  EXPECT_EQ(info.n_physical, 6u);
  EXPECT_EQ(info.n_fast, 2u);
  EXPECT_EQ(info.n_default_threads, 2u);
  EXPECT_EQ(info.fast_cpus, (std::vector<uint32_t>{0, 2}));
  EXPECT_EQ(info.reason, "2 fast cores of 8 cpus");
}

TEST(CpuInfo, HybridByCapacity) {
  FakeSystem system;
  make_hybrid(system);
  for (int i = 0; i < 8; ++i) system.cpu(i, "cpu_capacity", i < 4 ? "1024" : "446");
  EXPECT_EQ(read_cpu_info(system.probe()).n_default_threads, 2u);
}

TEST(CpuInfo, HybridByFrequency) {
  FakeSystem system;
  make_hybrid(system);
  // Equal capacities tell nothing; the frequencies do.
  for (int i = 0; i < 8; ++i)
    system.cpu(i, "cpu_capacity", "1024").cpu(i, "cpufreq/cpuinfo_max_freq", i < 4 ? "5200000" : "3700000");
  EXPECT_EQ(read_cpu_info(system.probe()).n_default_threads, 2u);
}

TEST(CpuInfo, FavouredCoresDoNotMakeItHybrid) {
  FakeSystem system;
  make_smt(system);
  for (int i = 0; i < 8; ++i) system.cpu(i, "cpufreq/cpuinfo_max_freq", i % 4 == 0 ? "5400000" : "5000000");
  EXPECT_EQ(read_cpu_info(system.probe()).n_default_threads, 4u);
}

TEST(CpuInfo, AffinityToSlowCoresUsesThem) {
  FakeSystem system;
  make_hybrid(system);
  system.write("sys/devices/cpu_core/cpus", "0-3\n").write("sys/devices/cpu_atom/cpus", "4-7\n");
  const CpuInfo info = read_cpu_info(system.probe({4, 5, 6}));
  EXPECT_EQ(info.n_default_threads, 3u);
  EXPECT_EQ(info.reason, "3 slow cores of 8 cpus, affinity allows 3 cpus");
}

// A laptop as the kernel shows it: 6 fast cores with two threads each (0-11), 8 slow ones (12-19), all of one package.
void make_hybrid_laptop(FakeSystem& system) {
  system.online("0-19");
  for (int i = 0; i < 20; ++i) {
    const bool fast = i < 12;
    const int core = fast ? i / 2 * 4 : 24 + (i - 12);
    const std::string siblings =
        fast ? std::to_string(i / 2 * 2) + "-" + std::to_string(i / 2 * 2 + 1) : std::to_string(i);
    system.cpu(i, "topology/core_id", std::to_string(core))
        .cpu(i, "topology/physical_package_id", "0")
        .cpu(i, "topology/core_cpus_list", siblings)
        .cpu(i, "cpufreq/cpuinfo_max_freq", fast ? (i < 4 ? "4700000" : "4600000") : "3300000");
  }
}

TEST(CpuInfo, HybridLaptop) {
  for (const bool kernel_list : {true, false}) {
    FakeSystem system;
    make_hybrid_laptop(system);
    if (kernel_list) system.write("sys/devices/cpu_core/cpus", "0-11\n").write("sys/devices/cpu_atom/cpus", "12-19\n");
    CpuInfo info = read_cpu_info(system.probe());
    EXPECT_EQ(info.n_physical, 14u);
    EXPECT_EQ(info.n_fast, 6u);
    EXPECT_EQ(info.n_default_threads, 6u);
    EXPECT_EQ(info.fast_cpus, (std::vector<uint32_t>{0, 2, 4, 6, 8, 10}));
    EXPECT_EQ(info.n_usable, 20u);
    // The slow cores alone; and one fast core among them.
    EXPECT_EQ(read_cpu_info(system.probe({12, 13, 14, 15})).n_default_threads, 4u);
    info = read_cpu_info(system.probe({11, 12, 13, 14}));
    EXPECT_EQ(info.n_default_threads, 1u);
    EXPECT_EQ(info.fast_cpus, (std::vector<uint32_t>{11}));
  }
}

// 4 slow cores, 3 fast ones and a prime one; capacities as the kernel normalises them.
TEST(CpuInfo, ArmBigLittle) {
  FakeSystem system;
  system.online("0-7");
  for (int i = 0; i < 8; ++i) {
    system.cpu(i, "topology/core_id", std::to_string(i % 4))
        .cpu(i, "topology/physical_package_id", "0")
        .cpu(i, "topology/cluster_id", i < 4 ? "0" : "1")
        .cpu(i, "topology/core_cpus_list", std::to_string(i))
        .cpu(i, "cpu_capacity",
             i < 4   ? "325"
             : i < 7 ? "828"
                     : "1024");
  }
  const CpuInfo info = read_cpu_info(system.probe());
  EXPECT_EQ(info.n_physical, 8u);
  EXPECT_EQ(info.n_default_threads, 4u);
  EXPECT_EQ(info.fast_cpus, (std::vector<uint32_t>{4, 5, 6, 7}));
  EXPECT_EQ(info.reason, "4 fast cores of 8 cpus");
}

// Two cpus without frequencies: two cores, or two threads of one core where the host says so.
TEST(CpuInfo, SmallVirtualMachine) {
  for (const bool siblings : {false, true}) {
    FakeSystem system;
    system.online("0-1");
    for (int i = 0; i < 2; ++i) {
      system.cpu(i, "topology/core_id", siblings ? "0" : std::to_string(i))
          .cpu(i, "topology/physical_package_id", "0")
          .cpu(i, "topology/core_cpus_list", siblings ? "0-1" : std::to_string(i));
    }
    EXPECT_EQ(read_cpu_info(system.probe()).n_default_threads, siblings ? 1u : 2u);
    EXPECT_EQ(read_cpu_info(system.probe()).n_usable, 2u);
  }
}

TEST(CpuInfo, OnlyTheListOfCpus) {
  FakeSystem system;
  system.online("0-3");
  const CpuInfo info = read_cpu_info(system.probe({1, 2}));
  EXPECT_EQ(info.n_default_threads, 2u);
  EXPECT_EQ(info.fast_cpus, (std::vector<uint32_t>{1, 2}));
}

// More threads than these find no processor time at once.
TEST(CpuInfo, UsableThreadsFollowAffinityAndQuota) {
  FakeSystem system;
  make_smt(system);
  EXPECT_EQ(read_cpu_info(system.probe({0, 1, 4})).n_usable, 3u);
  system.write("proc/self/cgroup", "0::/\n").write("sys/fs/cgroup/cpu.max", "150000 100000\n");
  EXPECT_EQ(read_cpu_info(system.probe()).n_usable, 2u);
  EXPECT_EQ(read_cpu_info(system.probe({3})).n_usable, 1u);
  system.write("sys/fs/cgroup/cpu.max", "20000 100000\n");
  EXPECT_EQ(read_cpu_info(system.probe()).n_usable, 1u);
}

TEST(CpuInfo, OfflineCpusDoNotCount) {
  FakeSystem system;
  make_smt(system);
  system.online("0,2,4-5");
  const CpuInfo info = read_cpu_info(system.probe({0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(info.n_logical, 4u);
  EXPECT_EQ(info.n_physical, 3u);
  EXPECT_EQ(info.n_default_threads, 3u);
}

TEST(CpuInfo, QuotaRoundsUp) {
  FakeSystem system;
  make_smt(system);
  system.write("proc/self/cgroup", "0::/user/job\n").write("sys/fs/cgroup/user/job/cpu.max", "150000 100000\n");
  const CpuInfo info = read_cpu_info(system.probe());
  EXPECT_DOUBLE_EQ(info.quota.value(), 1.5);
  EXPECT_EQ(info.n_default_threads, 2u);
  EXPECT_EQ(info.reason, "4 physical cores of 8 cpus, cgroup quota 1.5");
}

TEST(CpuInfo, TheSmallestQuotaOnTheWayUpCounts) {
  FakeSystem system;
  make_smt(system);
  system.write("proc/self/cgroup", "0::/a/b/c\n")
      .write("sys/fs/cgroup/a/b/c/cpu.max", "max 100000\n")
      .write("sys/fs/cgroup/a/b/cpu.max", "300000 100000\n")
      .write("sys/fs/cgroup/a/cpu.max", "25000 50000\n");
  const CpuInfo info = read_cpu_info(system.probe());
  EXPECT_DOUBLE_EQ(info.quota.value(), 0.5);
  EXPECT_EQ(info.n_default_threads, 1u);  // never 0
}

TEST(CpuInfo, QuotaOfAContainersOwnRoot) {
  FakeSystem system;
  make_smt(system);
  system.write("proc/self/cgroup", "0::/../../elsewhere\n").write("sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_EQ(read_cpu_info(system.probe()).n_default_threads, 2u);
}

TEST(CpuInfo, QuotaVersion1) {
  FakeSystem system;
  make_smt(system);
  system.write("proc/self/cgroup", "9:name=systemd:/\n4:cpu,cpuacct:/docker/x\n0::/\n")
      .write("sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_quota_us", "-1\n")
      .write("sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_period_us", "100000\n")
      .write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "250000\n")
      .write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(read_cpu_info(system.probe()).n_default_threads, 3u);
}

TEST(CpuInfo, DamagedQuotaIsIgnored) {
  for (const char* text : {"", "max", "x y", "100000", "100000 0", "0 100000", "-5 100000"}) {
    FakeSystem system;
    make_smt(system);
    system.write("proc/self/cgroup", "0::/\n").write("sys/fs/cgroup/cpu.max", text);
    EXPECT_EQ(read_cpu_info(system.probe()).n_default_threads, 4u) << text;
  }
}

TEST(CpuInfo, NothingReadableStillGivesOneThread) {
  const SystemProbe nowhere{.sys_root = "/nonexistent/sys", .proc_root = "/nonexistent/proc", .affinity = {{3}}};
  const CpuInfo info = read_cpu_info(nowhere);
  EXPECT_EQ(info.n_default_threads, 1u);
  EXPECT_EQ(info.model, "(unknown)");
  EXPECT_EQ(read_memory_info(nowhere).total_bytes, 0u);
  EXPECT_EQ(peak_rss_bytes(nowhere), 0u);
}

TEST(CpuInfo, ThisMachineFollowsItsAffinity) {
  const CpuInfo before = read_cpu_info();
  EXPECT_GE(before.n_default_threads, 1u);
  EXPECT_LE(before.n_default_threads, before.n_allowed);
  EXPECT_FALSE(before.reason.empty());
  CpuInfo pinned;
  std::thread([&] {  // the affinity of one thread, not of the test program
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(before.fast_cpus.front(), &set);
    ASSERT_EQ(sched_setaffinity(0, sizeof set, &set), 0);
    pinned = read_cpu_info();
  })
      .join();
  EXPECT_EQ(pinned.n_default_threads, 1u);
  EXPECT_EQ(pinned.n_allowed, 1u);
}

TEST(MemoryInfo, MachineAndControlGroup) {
  FakeSystem system;
  system.write("proc/meminfo", "MemTotal:       16000000 kB\nMemFree:  100 kB\nMemAvailable:   8000000 kB\n");
  MemoryInfo info = read_memory_info(system.probe());
  EXPECT_EQ(info.total_bytes, 16000000ull * 1024);
  EXPECT_EQ(info.available_bytes, 8000000ull * 1024);
  EXPECT_FALSE(info.limited_by_cgroup);

  system.write("proc/self/cgroup", "0::/a/b\n")
      .write("sys/fs/cgroup/a/b/memory.max", "max\n")
      .write("sys/fs/cgroup/a/memory.max", "1000000000\n")
      .write("sys/fs/cgroup/a/memory.current", "900000000\n")
      .write("sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 300000000\n");
  info = read_memory_info(system.probe());
  EXPECT_EQ(info.total_bytes, 1000000000u);
  EXPECT_EQ(info.available_bytes, 400000000u);
  EXPECT_TRUE(info.limited_by_cgroup);
}

TEST(MemoryInfo, Version1) {
  FakeSystem system;
  system.write("proc/meminfo", "MemTotal:       16000000 kB\nMemAvailable:   8000000 kB\n")
      .write("proc/self/cgroup", "4:memory:/x\n")
      .write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
      .write("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "500000000\n")
      .write("sys/fs/cgroup/memory/x/memory.usage_in_bytes", "600000000\n");
  const MemoryInfo info = read_memory_info(system.probe());
  EXPECT_EQ(info.total_bytes, 500000000u);
  EXPECT_EQ(info.available_bytes, 0u);  // more than the limit is in use: nothing is left, and no wrap
}

TEST(Rss, PeakCoversWhatWasTouched) {
  const uint64_t before = current_rss_bytes();
  ASSERT_GT(before, 0u);
  std::vector<char> block(64 << 20, 1);
  EXPECT_GE(peak_rss_bytes(), before + (60u << 20));
  EXPECT_EQ(std::count(block.begin(), block.end(), 1), 64 << 20);
}

}  // namespace
}  // namespace sluice
