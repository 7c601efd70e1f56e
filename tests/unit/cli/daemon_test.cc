// The daemon's life where something goes wrong: it runs in a child process, over models that hang, break or
// do not load, and must end with the right status all the same.
#include "cli/daemon.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "cli/exit_guard.h"
#include "obs/logging.h"
#include "tests/support/event.h"
#include "tests/support/fake_served_model.h"
#include "tests/unit/serve/http/test_client.h"
#ifdef SKIPJACK_WITH_GRPC
#include <grpcpp/grpcpp.h>

#include "skipjack/v1/inference.grpc.pb.h"
#endif

namespace skipjack::cli {
namespace {

using http::TestClient;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using testing::Event;
using ::testing::ExitedWithCode;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kTerminated = 128 + SIGTERM;

std::uint16_t PortOf(const std::string& address) {
  return static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
}

std::string Body(const std::string& model, bool stream) {
  return R"({"model": ")" + model + R"(", "prompt": "x", "max_tokens": 4, "ignore_eos": true, "stream": )" +
         (stream ? "true}" : "false}");
}

void ReadToTheEnd(TestClient* client) {
  try {
    client->ReadReply();
  } catch (const std::exception&) {  // cut before its end
  }
}

void Terminate() {
  ::kill(::getpid(), SIGTERM);
}

// Loads a fake model whose steps call `on_step`.
ModelLoader FakeLoader(std::function<Status(const std::string& model)> on_step) {
  return [on_step](const ModelEntry& entry, std::int32_t, LoadHooks hooks) {
    testing::FakeServedModelOptions options;
    options.name = entry.name;
    options.observer = std::move(hooks.observer);
    options.on_broken = std::move(hooks.on_broken);
    options.on_step = [on_step, name = entry.name](const StepBatch&) { return on_step(name); };
    return Result<std::shared_ptr<ServedModel>>(testing::MakeFakeServedModel(options));
  };
}

// A daemon in this process, which is a child of the test's.
struct Scenario {
  DaemonConfig config;
  DaemonOptions options;
  // Runs on a thread of its own once the daemon is ready.
  std::function<void(const DaemonAddresses&)> client = [](const DaemonAddresses&) {};

  Scenario() {
    config.server.grpc.port = 0;
    config.server.http.port = 0;
    config.server.drain_grace_seconds = 0.05;
    AddModel("fake");
  }

  void AddModel(const std::string& name) {
    ModelEntry entry;
    entry.name = name;
    config.models.push_back(entry);
  }

  [[noreturn]] void Run() {
    if (!SetUpLogging("info", "text").ok()) std::abort();
    Signals signals;
    std::thread thread;
    options.on_ready = [&](const DaemonAddresses& addresses) {
      thread = std::thread([this, addresses] { client(addresses); });
    };
    const int status = RunDaemon(config, options, &signals);
    if (thread.joinable()) thread.join();
    std::_Exit(status);
  }
};

class DaemonDeathTest : public ::testing::Test {
 protected:
  DaemonDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

// The step thread never comes back from its step.
struct Hang {
  Event hung;
  Event never;

  ModelLoader Loader() {
    return FakeLoader([this](const std::string&) {
      hung.Set();
      never.Wait();
      return Status::Ok();
    });
  }
};

[[noreturn]] void HangOverHttp(Duration margin, bool second_signal) {
  Hang hang;
  Scenario scenario;
  scenario.config.server.grpc_enabled = false;
  scenario.options.loader = hang.Loader();
  scenario.options.stop_margin = margin;
  scenario.client = [&](const DaemonAddresses& addresses) {
    TestClient client(PortOf(addresses.http));
    client.Post("/v1/completions", Body("fake", true));
    hang.hung.Wait();
    Terminate();
    ReadToTheEnd(&client);  // at the end of the grace the answer is cut: what follows hangs
    if (second_signal) Terminate();
  };
  scenario.Run();
}

TEST_F(DaemonDeathTest, AStepThatHangsDoesNotKeepTheProcess) {
  EXPECT_EXIT(HangOverHttp(std::chrono::milliseconds(200), false), ExitedWithCode(kExitStuck),
              AllOf(HasSubstr("not stopped after"), HasSubstr("1 live requests"),
                    HasSubstr("model fake: 1 live sequences"), HasSubstr("running: 1")));
}

TEST_F(DaemonDeathTest, ASecondSignalEndsWhatHangsAfterTheGrace) {
  EXPECT_EXIT(HangOverHttp(std::chrono::hours(1), true), ExitedWithCode(kTerminated),
              ContainsRegex("signal 15 while [a-z ]*: ending at once"));
}

#ifdef SKIPJACK_WITH_GRPC
[[noreturn]] void HangOverGrpc() {
  Hang hang;
  Scenario scenario;
  scenario.options.loader = hang.Loader();
  scenario.options.stop_margin = std::chrono::milliseconds(200);
  scenario.client = [&](const DaemonAddresses& addresses) {
    const auto stub =
        v1::Inference::NewStub(grpc::CreateChannel(addresses.grpc, grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    v1::GenerateRequest request;
    request.set_text("x");
    const auto stream = stub->Generate(&context, request);
    hang.hung.Wait();
    Terminate();
    v1::GenerateResponse response;
    while (stream->Read(&response)) {
    }
  };
  scenario.Run();
}

TEST_F(DaemonDeathTest, AStepThatHangsDoesNotKeepTheProcessWithGrpcEither) {
  EXPECT_EXIT(HangOverGrpc(), ExitedWithCode(kExitStuck),
              AllOf(HasSubstr("still finishing requests"), HasSubstr("model fake: 1 live sequences")));
}
#endif

[[noreturn]] void BreakOneOfTwo() {
  Event broken;
  Event second_runs;
  Scenario scenario;
  scenario.config.server.grpc_enabled = false;
  scenario.config.server.drain_grace_seconds = 60;
  scenario.AddModel("sound");
  scenario.options.loader = [&](const ModelEntry& entry, std::int32_t most, LoadHooks hooks) {
    hooks.on_broken = [&, notify = hooks.on_broken](const Status& why) {
      notify(why);
      broken.Set();
    };
    return FakeLoader([&](const std::string& model) {
      if (model == "fake") return Status::Internal("the device is gone");
      second_runs.Set();
      broken.Wait();
      return Status::Ok();
    })(entry, most, std::move(hooks));
  };
  scenario.client = [&](const DaemonAddresses& addresses) {
    TestClient sound(PortOf(addresses.http));
    sound.Post("/v1/completions", Body("sound", false));
    second_runs.Wait();
    for (int i = 0; i < 3; ++i) {
      TestClient client(PortOf(addresses.http));
      client.Post("/v1/completions", Body("fake", false));
      std::fprintf(stderr, "the broken model answers %d\n", client.ReadReply().status);
    }
    std::fprintf(stderr, "the sound model answers %d\n", sound.ReadReply().status);
  };
  scenario.Run();
}

TEST_F(DaemonDeathTest, ABrokenEngineEndsTheProcessOnceStreamsHaveEnded) {
  EXPECT_EXIT(BreakOneOfTwo(), ExitedWithCode(kExitBroken),
              AllOf(HasSubstr("model fake is not ready any more"), HasSubstr("the broken model answers 500"),
                    HasSubstr("the sound model answers 200"), HasSubstr("stopped")));
}

[[noreturn]] void TerminateWhileLoading(int signals) {
  Scenario scenario;
  scenario.AddModel("second");
  scenario.options.loader = [&](const ModelEntry& entry, std::int32_t, const LoadHooks& hooks) {
    std::fprintf(stderr, "loading %s\n", entry.name.c_str());
    Terminate();
    while (!*hooks.cancel) std::this_thread::yield();
    if (signals > 1) Terminate();
    while (signals > 1) std::this_thread::yield();  // does not heed it
    return Result<std::shared_ptr<ServedModel>>(Status::Cancelled("loading was cancelled"));
  };
  scenario.Run();
}

TEST_F(DaemonDeathTest, ASignalWhileLoadingLoadsNoFurtherModel) {
  EXPECT_EXIT(
      TerminateWhileLoading(1), ExitedWithCode(kExitOrderly),
      AllOf(HasSubstr("loading fake"), Not(HasSubstr("loading second")), Not(HasSubstr("did not load"))));
}

TEST_F(DaemonDeathTest, ASecondSignalWhileLoadingEndsAtOnce) {
  EXPECT_EXIT(TerminateWhileLoading(2), ExitedWithCode(kTerminated),
              HasSubstr("signal 15 while loading models: ending at once"));
}

[[noreturn]] void LoadSome(const std::string& on_model_failure, bool any_good) {
  Scenario scenario;
  scenario.config.server.on_model_failure = on_model_failure;
  scenario.AddModel("good");
  scenario.AddModel("third");
  scenario.options.loader = [&](const ModelEntry& entry, std::int32_t most, LoadHooks hooks) {
    if (!any_good || entry.name != "good") {
      return Result<std::shared_ptr<ServedModel>>(Status::NotFound("no file for " + entry.name));
    }
    return FakeLoader([](const std::string&) { return Status::Ok(); })(entry, most, std::move(hooks));
  };
  scenario.client = [&](const DaemonAddresses& addresses) {
    TestClient client(PortOf(addresses.http));
    client.Get("/health/ready");
    std::fprintf(stderr, "readiness is %d\n", client.ReadReply().status);
    client.Post("/v1/completions", Body("good", false));
    std::fprintf(stderr, "the good one answers %d\n", client.ReadReply().status);
    client.Post("/v1/completions", Body("third", false));
    const http::Reply reply = client.ReadReply();
    std::fprintf(stderr, "the bad one answers %d, again in %s s: %s\n", reply.status,
                 reply.fields.at("retry-after").c_str(), reply.body.c_str());
    client.Close();
    Terminate();
  };
  scenario.Run();
}

TEST_F(DaemonDeathTest, ModelsThatDoNotLoadAreAllNamed) {
  EXPECT_EXIT(
      LoadSome("exit", true), ExitedWithCode(kExitNotStarted),
      AllOf(HasSubstr("no file for fake"), HasSubstr("no file for third"), Not(HasSubstr("is ready:"))));
}

TEST_F(DaemonDeathTest, TheOthersAreServedWhereThatIsWanted) {
  EXPECT_EXIT(LoadSome("serve_others", true), ExitedWithCode(kExitOrderly),
              AllOf(HasSubstr("no file for fake"), HasSubstr("readiness is 200"),
                    HasSubstr("the good one answers 200"),
                    ContainsRegex("the bad one answers 503, again in [0-9]+ s"),
                    ContainsRegex("failed to load: .*no file for third")));
}

TEST_F(DaemonDeathTest, NoModelAtAllIsNoServer) {
  EXPECT_EXIT(LoadSome("serve_others", false), ExitedWithCode(kExitNotStarted),
              HasSubstr("no file for good"));
}

}  // namespace
}  // namespace skipjack::cli
