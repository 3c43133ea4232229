// Shadows torch's header of this name.
#pragma once

#include <torch/headeronly/util/Half.h>
