// Unicode's composed normal form (NFC), in linear time whatever the text.
#pragma once

#include <string>
#include <string_view>

namespace ductl::engine {

// `text` must be UTF-8. Returns `text` itself where nothing can change, else a view of `buffer`.
[[nodiscard]] std::string_view nfc(std::string_view text, std::string& buffer);

} // namespace ductl::engine
