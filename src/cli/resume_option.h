#pragma once

#include <string>
#include <vector>

namespace kolo {

// "--resume best" in a command line becomes "--resume=best", and so on, and "--resume" alone
// "--resume=newest"; a word behind it that is no checkpoint's name (a YAML file, a setting, an
// option) stays for itself.
void give_resume_its_value(std::vector<std::string>& words);

// The command line of `kolo train`, program and all, becomes one that goes on from the newest
// checkpoint.
void resume_newest(std::vector<std::string>& words);

}  // namespace kolo
