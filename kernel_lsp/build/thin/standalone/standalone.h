// A call by name into a thin artifact, without Python and torch.
#pragma once

#include <string>
#include <vector>

namespace standalone {

// Calls the operator `name`, `namespace::function`, with one word for each parameter: a number as C++ reads it, or a
// tensor as `file bytes dtype sizes`. Ends the program with status 3 and a message where that cannot be done.
void call(const std::string& name, const std::vector<std::string>& words);

} // namespace standalone
