// Heads, routes and errors as values; the request parser against bytes in every grouping.
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "serve/http/error_json.h"
#include "serve/http/http_message.h"
#include "serve/http/request_headers.h"
#include "serve/http/request_parser.h"
#include "serve/http/router.h"

namespace skipjack::http {
namespace {

using testing::HasSubstr;

TEST(HttpMessage, Dates) {
  EXPECT_EQ(FormatHttpDate(784111777), "Sun, 06 Nov 1994 08:49:37 GMT");  // RFC 9110's example
  EXPECT_EQ(FormatHttpDate(0), "Thu, 01 Jan 1970 00:00:00 GMT");
}

TEST(HttpMessage, NothingEndsAHeaderLineEarly) {
  Response response;
  response.fields = {{"X-Echo", "a\r\nSet-Cookie: b"}};
  const std::string head = SerializeHead(response, {}, "now");
  EXPECT_THAT(head, HasSubstr("X-Echo: a  Set-Cookie: b\r\n"));
}

TEST(HttpMessage, SmallHelpers) {
  EXPECT_EQ(PercentDecode("org%2Fname%20x"), "org/name x");
  EXPECT_EQ(PercentDecode("%4"), std::nullopt);
  EXPECT_EQ(PercentDecode("%zz"), std::nullopt);
  EXPECT_EQ(MediaType("Application/JSON ; charset=utf-8"), "application/json");
  EXPECT_TRUE(IsUsableRequestId("req_1.2-3"));
  for (const std::string& id : {std::string(), std::string("a b"), std::string("a\n"),
                                std::string("\xc3\xa9"), std::string(129, 'a')}) {
    EXPECT_FALSE(IsUsableRequestId(id));
  }
  std::string chunk;
  AppendChunk(&chunk, std::string(26, 'x'));
  EXPECT_EQ(chunk, "1a\r\n" + std::string(26, 'x') + "\r\n");
}

TEST(HttpMessage, WarningHoldsOnlyHarmlessCharacters) {
  const auto [name, value] = IgnoredFieldsWarning({"a\"\r\nb", "c.d"});
  EXPECT_EQ(name, "Warning");
  EXPECT_EQ(value, "299 skipjack \"unknown fields were ignored: a???b, c.d\"");
}

TEST(Router, FindsRoutes) {
  EXPECT_EQ(MatchRoute("/v1/completions").route, HttpRoute::kCompletions);
  EXPECT_EQ(MatchRoute("/health").route, HttpRoute::kHealthReady);
  EXPECT_EQ(MatchRoute("/v1/models/org%2Fm").model, "org/m");
  EXPECT_EQ(MatchRoute("/v1/models/org/m").model, "org/m");
  for (const std::string_view path :
       {"/", "", "/v1/completions/", "/v1/models/", "/v1/models/%f", "/V1/completions"}) {
    EXPECT_EQ(MatchRoute(path).route, HttpRoute::kUnknown) << path;
  }
}

TEST(ErrorJson, MapsStatusCodes) {
  const std::pair<Status, int> expected[] = {
      {Status::InvalidArgument("x"), 400},
      {Status::OutOfRange("x"), 400},
      {Status::NotFound("x"), 404},
      {Status::ResourceExhausted("x"), 429},
      {Status::Unavailable("x"), 503},
      {Status::DeadlineExceeded("x"), 504},
      {Status::Internal("x"), 500},
      {Status::Cancelled("x"), 499},
      {Status::Unimplemented("x"), 501},
      {Status::AlreadyExists("x"), 409},
      {{StatusCode::kUnauthenticated, ""}, 401},
      {{StatusCode::kPermissionDenied, "x"}, 403},
  };
  for (const auto& [status, code] : expected)
    EXPECT_EQ(ErrorFromStatus(status).status, code) << status.ToString();
}

TEST(ErrorJson, NamesTheFieldAndTheWait) {
  EXPECT_EQ(ErrorFromStatus(Status::InvalidArgument("top_p must lie in (0, 1], got 3")).param, "top_p");
  EXPECT_EQ(ErrorFromStatus(Status::InvalidArgument("prompt[3] is out of range")).param, "prompt");
  EXPECT_EQ(ErrorFromStatus(Status::InvalidArgument("something else")).param, "");
  EXPECT_EQ(ErrorFromStatus(Status::InvalidArgument("nothing")).param,
            "");  // begins with "n", but is no field
  EXPECT_EQ(ErrorFromStatus(Status::ResourceExhausted("full")).retry_after_seconds, 1);
  EXPECT_EQ(ErrorFromStatus(Status::ResourceExhausted("full"), 7).retry_after_seconds, 7);
  EXPECT_EQ(ErrorFromStatus(Status::Unavailable("loading")).retry_after_seconds, std::nullopt);
  const auto error = nlohmann::json::parse(RenderError(BadRequest("bad \xff \"x\"", "n")));
  EXPECT_EQ(error["error"]["message"], "bad \xef\xbf\xbd \"x\"");
  EXPECT_EQ(error["error"]["type"], "invalid_request_error");
  EXPECT_EQ(error["error"]["param"], "n");
  EXPECT_TRUE(error["error"]["code"].is_null());
}

const RequestParser::Limits kLimits{.header_bytes = 1024, .fields = 10, .body_bytes = 100};

// Feeds `bytes` in pieces of `piece` and returns the last progress.
RequestParser::Progress FeedInPieces(RequestParser* parser, std::string_view bytes, std::size_t piece) {
  std::string buffer;
  auto progress = RequestParser::Progress::kNeedMore;
  while (!bytes.empty() || !buffer.empty()) {
    buffer += bytes.substr(0, piece);
    bytes.remove_prefix(std::min(piece, bytes.size()));
    do {
      std::size_t consumed = 0;
      progress = parser->Feed(buffer, &consumed);
      buffer.erase(0, consumed);
    } while (progress == RequestParser::Progress::kHead);
    if (progress != RequestParser::Progress::kNeedMore) return progress;
    if (bytes.empty()) return progress;
  }
  return progress;
}

std::shared_ptr<ByteBudget> RoomyBudget() {
  return std::make_shared<ByteBudget>(1 << 20);
}

TEST(RequestParser, SameRequestWhateverTheGrouping) {
  const std::string plain = "POST /a?b=c HTTP/1.1\r\nHost: h\r\nX-Y: z\r\nContent-Length: 5\r\n\r\nhello";
  const std::string chunked =
      "POST /a HTTP/1.1\r\nHost: h\r\nX-Y: z\r\nTransfer-Encoding: chunked\r\n\r\n"
      "2;ext=1\r\nhe\r\n3\r\nllo\r\n0\r\nTrailer: t\r\n\r\n";
  for (const std::string& request : {plain, chunked}) {
    for (std::size_t piece = 1; piece <= request.size(); ++piece) {
      RequestParser parser(kLimits, RoomyBudget());
      ASSERT_EQ(FeedInPieces(&parser, request, piece), RequestParser::Progress::kComplete) << piece;
      EXPECT_EQ(parser.head().path, "/a");
      EXPECT_EQ(parser.head().method, Method::kPost);
      ASSERT_NE(parser.head().Find("x-y"), nullptr);
      EXPECT_EQ(*parser.head().Find("x-y"), "z");
      EXPECT_EQ(parser.head().Find("trailer"), nullptr);
      EXPECT_EQ(parser.TakeBody()->text(), "hello");
    }
  }
}

TEST(RequestParser, LeavesTheNextRequestAlone) {
  const std::string two = "GET /a HTTP/1.1\r\nHost: h\r\n\r\nGET /b HTTP/1.1\r\nHost: h\r\n\r\n";
  RequestParser parser(kLimits, RoomyBudget());
  std::size_t consumed = 0;
  ASSERT_EQ(parser.Feed(two, &consumed), RequestParser::Progress::kHead);
  EXPECT_EQ(consumed, two.size() / 2);
  ASSERT_EQ(parser.Feed(std::string_view(two).substr(consumed), &consumed),
            RequestParser::Progress::kComplete);
  EXPECT_EQ(consumed, 0u);
}

int StatusOfRefusal(std::string_view bytes) {
  RequestParser parser(kLimits, RoomyBudget());
  return FeedInPieces(&parser, bytes, bytes.size()) == RequestParser::Progress::kFailed
             ? parser.error().status
             : 0;
}

TEST(RequestParser, TakesWhatItHoldsFromTheBudget) {
  const auto budget = std::make_shared<ByteBudget>(8);
  const std::string request = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello";
  std::shared_ptr<RequestBody> body;
  {
    RequestParser parser(kLimits, budget);
    ASSERT_EQ(FeedInPieces(&parser, request, 1), RequestParser::Progress::kComplete);
    EXPECT_EQ(budget->left(), 3);
    body = parser.TakeBody();
  }
  EXPECT_EQ(budget->left(), 3);
  RequestParser second(kLimits, budget);
  EXPECT_EQ(FeedInPieces(&second, request, 1), RequestParser::Progress::kFailed);
  EXPECT_EQ(second.error().status, 429);
  EXPECT_EQ(second.error().retry_after_seconds, 1);
  body->Drop();
  EXPECT_EQ(body->text(), "");
  EXPECT_EQ(budget->left(), 5);  // the second holds what it took
}

TEST(RequestParser, RefusesWhatIsMalformedOrTooLarge) {
  EXPECT_EQ(StatusOfRefusal("\r\n\r\n"), 400);
  EXPECT_EQ(StatusOfRefusal("GET  / HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(StatusOfRefusal("GET / HTTP/1.1\r\nBad Field: x\r\n\r\n"), 400);
  EXPECT_EQ(StatusOfRefusal("GET / HTTP/2.0\r\n\r\n"), 505);
  EXPECT_EQ(StatusOfRefusal("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), 400);  // a TLS greeting
  EXPECT_EQ(StatusOfRefusal("GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n"), 400);
  EXPECT_EQ(StatusOfRefusal("GET / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n"), 400);
  EXPECT_EQ(StatusOfRefusal("GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"), 400);
  EXPECT_EQ(
      StatusOfRefusal("GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
      400);
  EXPECT_EQ(StatusOfRefusal("GET /" + std::string(2000, 'a') + " HTTP/1.1\r\n\r\n"), 431);
  EXPECT_EQ(StatusOfRefusal("GET / HTTP/1.1\r\nA: " + std::string(2000, 'a') + "\r\n\r\n"), 431);
  std::string many = "GET / HTTP/1.1\r\n";
  for (int i = 0; i < 11; ++i) many += "A: b\r\n";
  EXPECT_EQ(StatusOfRefusal(many + "\r\n"), 431);
  EXPECT_EQ(
      StatusOfRefusal("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n" + std::string(101, 'x')),
      413);
  EXPECT_EQ(StatusOfRefusal("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), 400);
  EXPECT_EQ(
      StatusOfRefusal("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;" + std::string(2000, 'x')),
      431);
}

}  // namespace
}  // namespace skipjack::http
