// Operating errors, for the whole house.
//
// An Error is what a person reads: what went wrong, where, and what to do next. It is a value; functions that can
// fail for reasons outside the program return Expected<T>. A programmer's error is an assert, never an Error.
// Codes are stable: docs and scripts may name them ("D0203"). Add new ones at the end of their block.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace ductl {

enum class ErrorCode : int {
  // 01xx inventory
  kInventoryFile = 100,      // cannot be read, or is not TOML
  kInventoryValue = 101,     // a value of the wrong type, out of range, or unknown
  kInventoryDuplicate = 102, // a name, MAC or address given twice
  // 02xx weights
  kCheckpointFile = 200,   // missing, truncated, or not what its header says
  kCheckpointTensor = 201, // a tensor missing, of the wrong shape or type
  kModelUnsupported = 202, // a config that this engine does not compute
  kWeightNotFinite = 203,  // NaN or infinity in a weight
  kModelDoesNotFit = 204,  // memory of ducks or host, or disk
  // 03xx agent and wire
  kAgentUnreachable = 300, // no answer on the control plane
  kAgentRefused = 301,     // answered, and said no
  kAgentVersion = 302,     // speaks another protocol version
  kAddressInUse = 303,     // a port that somebody else holds
  kDuckDied = 304,         // silent in a round for longer than limits.dead_after_ms
  kFlockEpoch = 305,       // the flock's slices are not those the engine expects
  kSumOverflow = 306,      // partial sums beyond the last fixed-point rung, or not finite
  // 04xx engine
  kTokenizer = 400,
  kChatFormat = 401,
  kContextLength = 402, // prompt (and answer) beyond the context
  kRequestValue = 403,  // a field of a request that is wrong or not supported
  kCancelled = 404,
  kHostMemory = 405,
  kQueueFull = 407, // too many requests wait already
  // 05xx ductl
  kUsage = 500,
  kPower = 501,       // a duck could not be switched on or off
  kEngineStart = 502, // duck-engine did not come up
  kState = 503,       // the state folder cannot be used
  kNotConfirmed = 504,
  kEngineUnreachable = 505, // no duck-engine answers, or it is not ready
  kEngineAnswer = 506,      // an answer that ended in an error, or is not what the API promises
  kOutput = 507,            // stdout or a file that was asked for cannot be written
  // 06xx netboot and its HTTP server
  kHttpServer = 600,
  kBootServer = 610, // a socket or a right that it needs cannot be had
  kBootFile = 611,   // cannot be read, or kept in memory
  kImageInput = 620, // a package, program or module of which no image for ducks can be made
  kImageFile = 621,  // a file of the image that cannot be read or written, or a tool that failed
  // 09xx
  kInternal = 900,
};

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;  // what went wrong, and why; lower case, no full stop
  std::string place;    // file:line:column, a tensor, a duck, a URL; may be empty
  std::string next;     // the next step for a person; may be empty
  std::string window{}; // the offending line of a text file with a caret below it; may be empty

  // "D0203".
  [[nodiscard]] std::string code_name() const;
  // "error[D0203]: message\n  --> place\nwindow\nhelp: next", without a newline at the end; empty parts are left out.
  [[nodiscard]] std::string text() const;
};

template <class T> using Expected = tl::expected<T, Error>;

[[nodiscard]] inline tl::unexpected<Error> fail(ErrorCode code, std::string message, std::string place = {},
                                                std::string next = {}) {
  return tl::unexpected<Error>(Error{code, std::move(message), std::move(place), std::move(next), {}});
}

} // namespace ductl
