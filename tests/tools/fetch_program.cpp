// fetch_program URL FOLDER NAME MD5 BYTES [ARCHIVE_FOLDER MEMBER...]: fetches one file, as a
// process of its own. Prints "was there" or the number of bytes that came.
#include <cstdlib>
#include <exception>
#include <iostream>

#include "kolo/tools/fetch.h"

int main(int count, char** arguments) {
  try {
    if (count < 6) throw std::runtime_error("too few arguments");
    kolo::RemoteDataset dataset{.name = "test",
                                .url = arguments[1],
                                .files = {{arguments[3], arguments[4], std::atoll(arguments[5])}}};
    if (count > 6) dataset.archive_folder = arguments[6];
    for (int i = 7; i < count; ++i) dataset.members.emplace_back(arguments[i]);
    const auto result = kolo::fetch_dataset(dataset, {.folder = arguments[2]});
    if (result.was_there) {
      std::cout << "was there\n";
    } else {
      std::cout << result.bytes_fetched << "\n";
    }
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
