// Shadows torch's header of this name; used by its ATen/Dispatch.h too.
#pragma once

#include <kernel_lsp/types.h>
