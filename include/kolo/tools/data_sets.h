#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

// Data sets: from the network, whole or not at all, for which curl, md5sum and tar do the work;
// what is in files; and how to begin to train on them.
namespace kolo {

struct RemoteFile {
  std::string name;
  std::string md5;         // 32 hexadecimal digits
  std::int64_t bytes = 0;  // its size
};

struct RemoteDataset {
  std::string name;
  std::string url;  // of their folder
  std::vector<RemoteFile> files;
  // Folder in a gzipped tar archive, which is the only file, and the files that must be in the
  // folder. These are unpacked, and the archive is removed. Empty: the files are no archive.
  std::string archive_folder;
  std::vector<std::string> members;
  std::string instead;  // advice for the error when it can't be fetched
};

// The known data sets, CIFAR-10 in its binary version, MNIST from the mirror that torchvision uses.
[[nodiscard]] std::vector<std::string> remote_dataset_names();
// One of them, with its sums. InputError for another name.
[[nodiscard]] RemoteDataset remote_dataset(std::string_view name);

struct FetchOptions {
  std::filesystem::path folder;
  std::string url;  // instead of the data set's own: http, https or file
  // Gets lines for people: files, waits, retries.
  std::function<void(const std::string&)> notice = [](const std::string&) {};
};

struct FetchResult {
  std::filesystem::path folder;    // what a dataset class takes
  bool was_there = false;          // it was complete before
  std::int64_t bytes_fetched = 0;  // by this call
};

// Puts the data set into the folder. Files are downloaded as NAME.part, from where an earlier
// download was cut off, renamed when their MD5 sum is right, and unpacked aside. Any number of
// processes may fetch into one folder at once: one works, the others wait for it. A complete folder
// needs neither lock nor network.
//
// Error with address and reason when it fails; what has come stays for the next time, except files
// with a wrong sum. InputError: the address is none, or there is no curl.
FetchResult fetch_dataset(const RemoteDataset& dataset, const FetchOptions& options);

// MD5 sum (RFC 1321) as 32 hexadecimal digits: against accidents, not attacks.
[[nodiscard]] std::string md5_of_file(const std::filesystem::path& path);

// Formats that inspect() reads, for people.
inline constexpr std::string_view inspected_formats =
    "IDX (plain or gzip), folders of CIFAR-10's binary batches, images (JPEG, PNG) and folders of "
    "images, simulation boxes (HDF5, .npy pairs), arrays (.npy, HDF5) and safetensors";

// Formats that networks are trained on, as inspect() names them; a box's file follows a comma.
namespace data_formats {
inline constexpr std::string_view idx_folder = "folder of IDX files", cifar10 = "CIFAR-10, binary",
                                  image_folder = "folder of images", box = "simulation box",
                                  samples = "samples of arrays", hdf5 = "HDF5 file";
}

// Contents of a file or folder of data, told by the content, as `kolo data inspect --json` writes
// them: path, format, bytes, arrays (name, type, shape, chunk, filters, channels with their
// ranges), facts and advice. `reads_numbers`: also the ranges of large arrays, for which all is
// read. InputError: no format that kolo reads, or a damaged file.
[[nodiscard]] nlohmann::ordered_json inspect(const std::filesystem::path& path, bool reads_numbers);

struct FirstConfiguration {
  std::string seen;  // "200 images of 4 classes, 64 pixels"
  std::string yaml;  // with comments
};

// Writes a first configuration for data as inspect() knows them, whose training takes a minute or
// so: a folder, which may have parts named train and valid, or a file. `file`: the configuration's
// name, for its comments. InputError for other data, and for arrays whose names don't tell inputs
// from targets.
[[nodiscard]] FirstConfiguration first_configuration(const std::filesystem::path& data,
                                                     const std::string& file);

}  // namespace kolo
