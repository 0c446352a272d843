#pragma once

namespace kolo {

// Opens what is closed of the descriptors 0 to 2 on /dev/null. Whoever starts a program with closed
// streams (a daemon, cron, `<&- >&- 2>&-`) gives their numbers to the next files and sockets that
// it opens, and what is printed then goes there. To be called before those.
void open_standard_streams();

}  // namespace kolo
