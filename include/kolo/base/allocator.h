#pragma once

namespace kolo {

// Tells the C library's allocator to keep freed memory instead of giving it back to the system. A
// training step frees and allocates the same large tensors again and again; getting them from the
// system each time costs a page fault, and zeroing, for every 4 KiB.
void keep_freed_memory();

// Gives back what is free now, once: for after large memory that won't be asked for again.
void release_freed_memory();

}  // namespace kolo
