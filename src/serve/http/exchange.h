// Between a connection, which knows sockets, and what answers a request, which does not.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "serve/http/http_message.h"

namespace skipjack::http {

// Takes one answer: Respond, or BeginStream, any StreamData, EndStream. Lives on one I/O thread. None of
// these calls back into the exchange; a client that is gone or too slow shows later, as Exchange::Cancel.
class ResponseChannel {
 public:
  virtual ~ResponseChannel() = default;
  // Before the answer: the id in its X-Request-Id, where the body names one.
  virtual void NameRequest(const std::string& id) = 0;
  virtual void Respond(Response response) = 0;
  virtual void BeginStream(Response head) = 0;
  virtual void StreamData(std::string_view data) = 0;
  virtual void EndStream() = 0;
};

// One request being answered, on the connection's I/O thread.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual void Start() = 0;
  // Nobody reads the answer any more: ends the work. The channel is not used again.
  virtual void Cancel(const Status& why) = 0;
  // Ends the work and tells the client why, in whatever form is still possible.
  virtual void Fail(const Status& why) = 0;
  // Is there work that a client's departure should stop?
  virtual bool cancellable() const = 0;
};

}  // namespace skipjack::http
