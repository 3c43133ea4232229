// Shadows torch's header of this name.
#pragma once

#include <kernel_lsp/cuda.h>
