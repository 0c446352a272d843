#pragma once

#include <filesystem>
#include <string>

namespace kolo {

// Unpacks the files of a tar archive, plain or gzip, that are directly in its folder `folder`, into
// `target`. Error for anything else in it but folders, for what is damaged, and for more than 4 GiB
// in all.
void unpack(const std::filesystem::path& archive, const std::string& folder,
            const std::filesystem::path& target);

}  // namespace kolo
