#include <signal.h>
#include <sys/resource.h>

#include <atomic>
#include <thread>

#include "hub/hub_case.h"

namespace sluice::hub {
namespace {

using nlohmann::json;
using Texts = std::vector<std::string>;

class HubPull : public testing::Test {
 protected:
  void SetUp() override {
    if (!can_download()) GTEST_SKIP() << "this build cannot download";
  }
  const std::string text_ = some_text(5000);

  // `script`: the steps of hub_server.py
  json scenario(const char* script = "[]") const {
    json all = hub_with({{"m-Q4_K_M.gguf", text_}});
    all["script"] = json::parse(script);
    return all;
  }
};

TEST_F(HubPull, TheCacheIsTheHubsOwn) {
  HubCase c(hub_with({{"m-Q4_K_M.gguf", text_}, {"m-Q8_0.gguf", "other"}}));
  const auto model = c.pull();
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->name, "own/repo:Q4_K_M");
  EXPECT_EQ(model->path(), c.path("m-Q4_K_M.gguf"));
  EXPECT_EQ(model->n_bytes, text_.size());
  EXPECT_EQ(read_file(model->path()), text_);
  EXPECT_EQ(read_file(c.repo() / "refs/main"), kRevision);
  ASSERT_EQ(c.blobs().size(), 1u);
  const fs::path blob = c.blobs()[0];
  EXPECT_EQ(blob.filename().string().size(), 64u);
  EXPECT_EQ(fs::read_symlink(model->path()), fs::path("../../blobs") / blob.filename());
  EXPECT_TRUE(
      fs::exists(fs::path(c.settings.cache) / ".locks/models--own--repo" / (blob.filename().string() + ".lock")));

  ASSERT_TRUE(c.pull());  // asks the hub, downloads nothing
  EXPECT_EQ(c.ranges(), Texts{""});
  const size_t n_seen = c.server.seen().size();
  ASSERT_TRUE(find_or_pull(c.settings, *parse_name("own/repo"), {}));
  EXPECT_EQ(c.server.seen().size(), n_seen);
}

TEST_F(HubPull, ContentThatIsThereIsOnlyLinked) {
  HubCase c(scenario());
  c.expect_pulled(text_);
  fs::remove_all(c.repo() / "snapshots");
  fs::remove_all(fs::path(c.settings.cache) / ".locks");
  c.expect_pulled(text_);
  EXPECT_EQ(c.ranges().size(), 1u);
}

TEST_F(HubPull, AllPartsInFoldersAndSmallFiles) {
  json all = hub_with(
      {{"Q8_0/m-00001-of-00002.gguf", text_}, {"Q8_0/m-00002-of-00002.gguf", "small"}, {"mmproj-f16.gguf", "no"}});
  all["repos"]["own/repo"]["files"]["Q8_0/m-00002-of-00002.gguf"]["small"] = true;
  HubCase c(all);
  std::vector<uint64_t> totals;
  c.listener.on_progress = [&](uint64_t done, uint64_t total) {
    EXPECT_LE(done, total);
    totals.push_back(total);
    return true;
  };
  const auto model = c.pull("own/repo:q8_0");
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->files, (Texts{c.path("Q8_0/m-00001-of-00002.gguf"), c.path("Q8_0/m-00002-of-00002.gguf")}));
  EXPECT_EQ(read_file(model->files[1]), "small");
  EXPECT_EQ(c.blobs().size(), 2u);
  EXPECT_EQ(totals.back(), text_.size() + 5);
  EXPECT_FALSE(fs::exists(c.path("mmproj-f16.gguf")));
}

TEST_F(HubPull, TheTokenStaysWithTheHub) {
  json all = scenario();
  all["repos"]["own/repo"]["token"] = "secret";
  HubCase c(all);
  c.expect_error(Code::not_found, "set HF_TOKEN");
  c.settings.token = "wrong";
  c.expect_error(Code::not_found, "gives HF_TOKEN no access");
  c.settings.token = "secret";
  c.expect_pulled(text_);
  size_t n_files = 0;
  for (const auto& seen : c.server.seen()) {
    const bool resolves = seen.hub && seen.path.find("/resolve/") != std::string::npos;
    EXPECT_TRUE(seen.hub || seen.token.empty()) << seen.token;
    EXPECT_TRUE(!resolves || seen.token == "Bearer secret") << seen.token;
    n_files += seen.hub ? 0 : 1;
  }
  EXPECT_EQ(n_files, 1u);
}

TEST_F(HubPull, TokensThatAreNoneAreRefused) {
  HubCase c(scenario());
  c.settings.token = "a\r\nX-Other: b";
  c.expect_error(Code::io, "HF_TOKEN");
  EXPECT_TRUE(c.server.seen().empty());
}

TEST_F(HubPull, AnInterruptedTransferGoesOn) {
  HubCase c(scenario(R"([{"cut": 1000}, {"cut": 500}, {"cut": 0}])"));
  c.expect_pulled(text_);
  EXPECT_EQ(c.ranges(), (Texts{"", "bytes=1000-", "bytes=1500-", "bytes=1500-"}));
  ASSERT_EQ(c.notes.size(), 3u);
  EXPECT_NE(c.notes[0].find("trying again"), std::string::npos) << c.notes[0];
}

TEST_F(HubPull, ItEndsWhereNothingMoreComes) {
  HubCase c(scenario(R"([{"cut": 1000}, {"cut": 0}, {"cut": 0}, {"cut": 0}, {"cut": 0}])"));
  c.settings.n_retries = 3;
  c.expect_error(Code::io, "did not give own/repo");
  EXPECT_EQ(c.ranges().size(), 4u);  // the first and three more
  ASSERT_EQ(c.partial().size(), 1u);
  EXPECT_EQ(read_file(c.partial()[0]), text_.substr(0, 1000));
}

TEST_F(HubPull, ItEndsWhereEveryConnectionStartsAnew) {
  HubCase c(scenario(
      R"([{"cut": 1000}, {"whole": true, "cut": 1000}, {"whole": true, "cut": 900}, {"whole": true, "cut": 9}])"));
  c.settings.n_retries = 3;
  c.expect_error(Code::io, "did not give own/repo");
}

TEST_F(HubPull, AnEarlierRunsPartIsTakenUp) {
  HubCase c(scenario(R"([{"status": 404}])"));
  c.expect_error(Code::not_found, "");
  ASSERT_EQ(c.partial().size(), 1u);
  write_file(c.partial()[0], text_.substr(0, 4000));
  c.expect_pulled(text_);
  EXPECT_EQ(c.ranges(), (Texts{"", "bytes=4000-"}));
}

TEST_F(HubPull, AWrongPartIsFetchedAnew) {
  HubCase c(scenario(R"([{"status": 404}])"));
  c.expect_error(Code::not_found, "");
  const fs::path part = c.partial().at(0);
  for (const size_t n_bytes : {4000, 5000, 6000}) {
    fs::remove(part.parent_path() / part.stem());
    fs::remove_all(c.repo() / "snapshots");
    write_file(part, some_text(n_bytes, 7));
    c.expect_pulled(text_);
    EXPECT_EQ(c.ranges().back(), "");
  }
}

TEST_F(HubPull, ServersThatDoNotGiveTheRange) {
  HubCase c(scenario(R"([{"cut": 1000}, {"whole": true}, {"cut": 1000}, {"shift": 1}, {},
                         {"cut": 1000}, {"etag": "changed"}, {}, {"cut": 1000}, {"status": 416}, {}])"));
  for (const size_t n_requests : {2, 3, 3, 3}) {
    c.start_anew();
    c.expect_pulled(text_);
    EXPECT_EQ(c.ranges().size(), n_requests);
    EXPECT_EQ(c.ranges()[1], "bytes=1000-");
  }
}

TEST_F(HubPull, WrongContentIsDeleted) {
  HubCase c(scenario(R"([{"wrong": true}])"));
  c.expect_error(Code::corrupt_file, "checksum");
  EXPECT_TRUE(c.partial().empty());
  EXPECT_TRUE(c.blobs().empty());
  c.expect_pulled(text_);
}

TEST_F(HubPull, LengthsThatAreWrong) {
  HubCase c(scenario(R"([{"extra": 5}, {"short": 5}])"));
  c.expect_error(Code::corrupt_file, "longer than the 5000 bytes");
  EXPECT_TRUE(c.partial().empty());
  c.expect_pulled(text_);
  EXPECT_EQ(c.ranges(), (Texts{"", "", "bytes=4995-"}));
}

TEST_F(HubPull, ServersInTrouble) {
  json all = scenario(R"([{"status": 503}, {"status": 429, "headers": {"Retry-After": "0"}}, {"cut": 0}])");
  all["api"] = json::parse(R"([{"status": 429}, {"status": 429}, {"status": 429}, {"status": 503}, {"status": 503},
                               {"status": 503}, {"status": 500}, {"status": 429}])");
  HubCase c(all);
  c.settings.n_retries = 2;
  c.expect_error(Code::io, "429");
  c.expect_error(Code::io, "503");
  EXPECT_EQ(c.server.seen().size(), 6u);
  c.settings.n_retries = 3;
  c.expect_pulled(text_);
  EXPECT_EQ(c.ranges().size(), 4u);
}

TEST_F(HubPull, WhatIsNotThere) {
  HubCase c(scenario(R"([{"status": 404}, {"status": 403}])"));
  for (int i = 0; i < 2; ++i) c.expect_error(Code::not_found, "check the name");
  EXPECT_EQ(c.ranges().size(), 2u);  // not tried again
  const auto none = c.pull("own/none");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::not_found);
  const auto quant = c.pull("own/repo:Q2_K");
  ASSERT_FALSE(quant);
  EXPECT_NE(quant.error().message.find("it has: Q4_K_M"), std::string::npos) << quant.error().message;
}

TEST_F(HubPull, RedirectsThatLeadNowhere) {
  json all = scenario();
  all["redirects"] = json::parse(R"(["loop", "loop", "loop", "loop", "loop", "loop", "loop", "loop", "loop",
                                     "file:///etc/passwd", "ftp://127.0.0.1/x", "none"])");
  HubCase c(all);
  c.expect_error(Code::io, "redirects more than");
  c.expect_error(Code::io, "not followed");
  c.expect_error(Code::io, "not followed");
  c.expect_pulled(text_);
  EXPECT_TRUE(c.ranges().empty());
}

TEST_F(HubPull, HostileAnswers) {
  json all = scenario();
  all["api"][0]["body"] = std::string(17 << 20, ' ');
  all["repos"]["own/repo"]["files"]["../../../escaped-Q4_K_M.gguf"]["text"] = "x";
  HubCase c(all);
  c.expect_error(Code::corrupt_file, "more than 16 MiB");
  c.expect_error(Code::corrupt_file, "no path inside a repository");
  EXPECT_FALSE(fs::exists(c.settings.cache));
}

TEST_F(HubPull, CancelledAndTakenUp) {
  HubCase c(scenario(R"([{"hang": 1000}])"));
  c.listener.on_progress = [](uint64_t done, uint64_t) { return done < 1000; };
  c.expect_error(Code::cancelled, "go on");
  ASSERT_EQ(c.partial().size(), 1u);
  EXPECT_EQ(fs::file_size(c.partial()[0]), 1000u);
  c.listener.on_progress = nullptr;
  c.expect_pulled(text_);
  EXPECT_EQ(c.ranges(), (Texts{"", "bytes=1000-"}));
}

TEST_F(HubPull, TwoAtOnceDownloadOnce) {
  HubCase c(scenario());
  std::atomic<bool> other_waits = false, started = false;
  Listener first, second;
  first.on_progress = [&](uint64_t done, uint64_t) {
    if (done == 0) return true;
    started = true;
    while (!other_waits) std::this_thread::yield();
    return true;
  };
  second.on_note = [&](const std::string& line) {
    if (line.find("another process") != std::string::npos) other_waits = true;
  };
  std::thread other([&] {
    while (!started) std::this_thread::yield();
    const auto model = hub::pull(c.settings, *parse_name("own/repo"), second);
    other_waits = true;
    EXPECT_TRUE(model) << model.error().message;
  });
  const auto model = hub::pull(c.settings, *parse_name("own/repo"), first);
  started = true;
  other.join();
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(read_file(model->path()), text_);
  EXPECT_EQ(c.ranges().size(), 1u);
}

TEST_F(HubPull, FullDisksAndPlacesThatTakeNothing) {
  HubCase c(scenario());
  signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{3000, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto full = c.pull();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_FALSE(full);
  EXPECT_NE(full.error().message.find("cannot write"), std::string::npos) << full.error().message;
  EXPECT_EQ(c.ranges().size(), 1u);  // not a matter of the network
  c.expect_pulled(text_);
  EXPECT_EQ(c.ranges().back(), "bytes=3000-");

  json huge = scenario();
  huge["repos"]["own/repo"]["files"]["m-Q4_K_M.gguf"]["size"] = uint64_t{1} << 45;
  HubCase space(huge);
  space.expect_error(Code::io, "the download needs 35.2 TB more");
  EXPECT_TRUE(space.ranges().empty());

  c.settings.cache = "/proc/self/cache";
  c.expect_error(Code::io, "HF_HUB_CACHE");
}

TEST_F(HubPull, WithoutANetworkTheCacheDoes) {
  HubCase c(scenario());
  c.expect_pulled(text_);
  c.server.stop();
  const auto run = find_or_pull(c.settings, *parse_name("own/repo:Q4_K_M"), c.listener);
  ASSERT_TRUE(run) << run.error().message;
  EXPECT_TRUE(c.notes.empty());
  for (const bool offline : {false, true}) {
    c.settings.offline = offline;
    c.notes.clear();
    const auto model = c.pull();
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ(model->path(), run->path());
    ASSERT_EQ(c.notes.size(), 1u);
    const auto other = c.pull("own/other");
    ASSERT_FALSE(other);
    EXPECT_EQ(other.error().code, Code::io);
  }
}

TEST_F(HubPull, AnotherQuantIsTakenWithANote) {
  HubCase c(hub_with({{"m-Q8_0.gguf", text_}, {"m-F16.gguf", "no"}}));
  c.expect_pulled(text_);
  EXPECT_EQ(c.notes, Texts{"own/repo has no Q4_K_M: taking Q8_0"});
  // One in the cache does, though the hub had to be asked which.
  fs::rename(c.repo() / "snapshots" / kRevision, c.repo() / "snapshots/older");
  const auto again = find_or_pull(c.settings, *parse_name("own/repo"), c.listener);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->path(), c.repo() / "snapshots/older/m-Q8_0.gguf");
}

TEST_F(HubPull, CertificatesThatNobodySigned) {
  const test::TempDir dir;
  const std::string cert = dir.file("cert.pem"), key = dir.file("key.pem");
  const std::string make =
      "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext "
      "subjectAltName=IP:127.0.0.1 -keyout '" +
      key + "' -out '" + cert + "' >/dev/null 2>&1";
  if (std::system(make.c_str()) != 0) GTEST_SKIP() << "the program openssl, which makes a certificate, is missing";
  json all = scenario();
  all["redirects"] = json::parse(R"(["http://127.0.0.1:1/m"])");
  HubCase c(all, {cert, key});
  c.expect_error(Code::io, "is not trusted");
  c.settings.ca_file = dir.file("absent.pem");
  c.expect_error(Code::io, "SSL_CERT_FILE");
  c.settings.ca_file = cert;
  c.expect_error(Code::io, "not followed");  // from https to http
  c.expect_pulled(text_);
}

}  // namespace
}  // namespace sluice::hub
