// A running server before a FakeInferenceService.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "serve/http/http_server.h"
#include "tests/unit/serve/http/fake_inference_service.h"
#include "tests/unit/serve/http/test_client.h"

namespace skipjack::http {

class ServerTest : public testing::Test {
 protected:
  // With `options` as the test has set them.
  void StartServer() {
    Result<std::unique_ptr<HttpServer>> created = HttpServer::Create(options, service);
    ASSERT_TRUE(created.ok()) << created.status().ToString();
    server = *std::move(created);
    const Status bound = server->Bind();
    ASSERT_TRUE(bound.ok()) << bound.ToString();
    const Status started = server->Start();
    ASSERT_TRUE(started.ok()) << started.ToString();
  }

  std::unique_ptr<TestClient> Connect(int receive_buffer = 0) {
    return std::make_unique<TestClient>(server->port(), receive_buffer);
  }

  // One request on a connection of its own.
  Reply Get(std::string_view path) {
    const auto client = Connect();
    client->Get(path);
    return client->ReadReply();
  }
  Reply Post(std::string_view path, std::string_view body, std::string_view fields = "") {
    const auto client = Connect();
    client->Post(path, body, fields);
    return client->ReadReply();
  }

  HttpServerOptions options;
  FakeInferenceService service;
  std::unique_ptr<HttpServer> server;  // goes before the service
};

}  // namespace skipjack::http
