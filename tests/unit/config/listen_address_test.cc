#include "config/listen_address.h"

#include <gtest/gtest.h>

#include <string>

namespace skipjack {
namespace {

ListenAddress Address(const std::string& text) {
  const auto address = ParseListenAddress(text);
  EXPECT_TRUE(address.ok()) << text << ' ' << address.status().message();
  return address.ok() ? *address : ListenAddress{};
}

TEST(ListenAddressTest, ReadsAndWrites) {
  for (const char* text : {"127.0.0.1:8080", "0.0.0.0:0", "[::1]:65535", "[::]:1", "localhost:50051",
                           "node-1.example.com:80", "[fe80::1]:9"}) {
    EXPECT_EQ(FormatListenAddress(Address(text)), text);
  }
  EXPECT_EQ(Address("[::1]:8080").host, "::1");
  EXPECT_EQ(Address("127.0.0.1:8080").port, 8080);
}

TEST(ListenAddressTest, WhatIsNoAddress) {
  for (const char* text : {"",
                           ":",
                           "8080",
                           "127.0.0.1",
                           "127.0.0.1:",
                           "127.0.0.1:x",
                           "127.0.0.1:65536",
                           "127.0.0.1:-1",
                           "127.0.0.1:+1",
                           "127.0.0.1: 80",
                           "127.0.0.1:99999999999999999999",
                           ":8080",
                           "*:8080",
                           "256.0.0.1:80",
                           "127.1:80",
                           "1.2.3.4.5:80",
                           "::1:8080",
                           "[::1:8080",
                           "[]:80",
                           "[127.0.0.1]:80",
                           "[zz]:80",
                           "http://localhost:80",
                           "a b:80",
                           "unix:/tmp/s",
                           "-x:1",
                           "ho_st:80",
                           "[::1%lo]:80"}) {
    EXPECT_FALSE(ParseListenAddress(text).ok()) << text;
  }
}

TEST(ListenAddressTest, Loopback) {
  for (const char* text : {"127.0.0.1:1", "127.8.9.10:1", "[::1]:1", "localhost:1", "[0:0:0:0:0:0:0:1]:1"}) {
    EXPECT_TRUE(IsLoopback(Address(text))) << text;
  }
  for (const char* text : {"0.0.0.0:1", "[::]:1", "10.0.0.1:1", "128.0.0.1:1", "localhost.example.com:1",
                           "127.example.com:1", "[::ffff:7f00:1]:1"}) {
    EXPECT_FALSE(IsLoopback(Address(text))) << text;
  }
}

TEST(ListenAddressTest, Collisions) {
  const auto collide = [](const char* a, const char* b) {
    EXPECT_EQ(Collide(Address(a), Address(b)), Collide(Address(b), Address(a)));
    return Collide(Address(a), Address(b));
  };
  EXPECT_TRUE(collide("127.0.0.1:80", "127.0.0.1:80"));
  EXPECT_TRUE(collide("127.0.0.1:80", "0.0.0.0:80"));
  EXPECT_TRUE(collide("127.0.0.1:80", "[::]:80"));
  EXPECT_TRUE(collide("localhost:80", "127.0.0.1:80"));
  EXPECT_TRUE(collide("localhost:80", "[::1]:80"));
  EXPECT_FALSE(collide("127.0.0.1:80", "127.0.0.1:81"));
  EXPECT_FALSE(collide("127.0.0.1:0", "127.0.0.1:0"));
  EXPECT_FALSE(collide("127.0.0.1:80", "127.0.0.2:80"));
  EXPECT_FALSE(collide("127.0.0.1:80", "[::1]:80"));
}

}  // namespace
}  // namespace skipjack
