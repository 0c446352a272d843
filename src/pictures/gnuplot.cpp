#include "pictures/gnuplot.h"

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <sstream>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>
#include <zlib.h>

#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/report/own_files.h"

namespace kolo {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail(const std::string& what, int error_number) {
  throw Error(system_error_text("figures: cannot " + what, error_number));
}

// A file without a name, gone when it is closed: a program reads and writes such files at its own
// pace, where pipes would have to be served.
class NamelessFile {
 public:
  NamelessFile() : file_(std::tmpfile(), &std::fclose) {
    if (!file_) fail("make a temporary file", errno);
  }

  [[nodiscard]] int descriptor() const { return ::fileno(file_.get()); }

  void write(std::string_view text) {
    write_all(descriptor(), std::as_bytes(std::span(text)), "a temporary file");
    rewind();
  }

  [[nodiscard]] std::string read() {
    const auto size = ::lseek(descriptor(), 0, SEEK_END);
    if (size < 0) fail("read a temporary file", errno);
    rewind();
    std::string content(static_cast<std::size_t>(size), '\0');
    content.resize(
        read_up_to(descriptor(), std::as_writable_bytes(std::span(content)), "a temporary file"));
    return content;
  }

 private:
  void rewind() {
    if (::lseek(descriptor(), 0, SEEK_SET) < 0) fail("read a temporary file", errno);
  }

  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

// Which files a program gets as its standard ones.
class StandardFiles {
 public:
  StandardFiles(const NamelessFile& input, const NamelessFile& output, const NamelessFile& errors) {
    check(::posix_spawn_file_actions_init(&actions_));
    check(::posix_spawn_file_actions_adddup2(&actions_, input.descriptor(), STDIN_FILENO));
    check(::posix_spawn_file_actions_adddup2(&actions_, output.descriptor(), STDOUT_FILENO));
    check(::posix_spawn_file_actions_adddup2(&actions_, errors.descriptor(), STDERR_FILENO));
  }
  StandardFiles(const StandardFiles&) = delete;
  StandardFiles& operator=(const StandardFiles&) = delete;
  ~StandardFiles() { ::posix_spawn_file_actions_destroy(&actions_); }

  [[nodiscard]] const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  static void check(int error) {
    if (error != 0) fail("start gnuplot", error);
  }
  posix_spawn_file_actions_t actions_{};
};

int wait_for(pid_t process) {
  int status = 0;
  while (::waitpid(process, &status, 0) < 0) {
    if (errno != EINTR) fail("wait for gnuplot", errno);
  }
  return status;
}

// As PNG has its numbers.
std::string big_endian(std::uint32_t number) {
  std::string bytes;
  for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>((number >> shift) & 0xFF);
  return bytes;
}

// The picture with the mark as a text chunk after its header.
std::string marked_png(std::string picture) {
  constexpr std::size_t signature_and_header = 8 + 25;
  if (picture.size() < signature_and_header) return picture;
  const std::string chunk = "tEXt" + std::string(png_mark);
  const auto* const bytes = reinterpret_cast<const unsigned char*>(chunk.data());
  const auto sum = static_cast<std::uint32_t>(::crc32_z(0, bytes, chunk.size()));
  const auto length = static_cast<std::uint32_t>(png_mark.size());
  return picture.insert(signature_and_header, big_endian(length) + chunk + big_endian(sum));
}

bool is_gnuplot_there() {
  const char* const folders = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe)
  std::istringstream list(folders == nullptr ? "/usr/bin:/bin" : folders);
  for (std::string folder; std::getline(list, folder, ':');) {
    if (::access((fs::path(folder.empty() ? "." : folder) / "gnuplot").c_str(), X_OK) == 0)
      return true;
  }
  return false;
}

}  // namespace

std::string gnuplot_terminal(int width, int height, FigureFormat format) {
  if (format == FigureFormat::svg) {
    return fmt::format(
        "set terminal svg size {},{} noenhanced font 'DejaVu Sans,13' background '#ffffff'\n",
        width, height);
  }
  return fmt::format(
      "set terminal pngcairo size {},{} noenhanced font 'DejaVu Sans,18' background '#ffffff' "
      "linewidth 2 pointscale 2\n",
      2 * width, 2 * height);
}

void require_gnuplot() {
  if (is_gnuplot_there()) return;
  throw InputError(
      "figures: there is no gnuplot in PATH, which draws them; on Debian it is in the package "
      "gnuplot-nox (apt-get install gnuplot-nox)");
}

std::string run_gnuplot(const std::string& commands, const std::string& name, FigureFormat format) {
  require_gnuplot();
  NamelessFile script, picture, errors;
  script.write(commands);
  const StandardFiles files(script, picture, errors);
  // -d: what the user has set for gnuplot elsewhere is not for these figures.
  std::string program = "gnuplot", option = "-d";
  char* const arguments[] = {program.data(), option.data(), nullptr};
  pid_t process = 0;
  const int error = ::posix_spawnp(&process, "gnuplot", files.get(), nullptr, arguments, ::environ);
  if (error != 0) fail("start gnuplot", error);
  const int status = wait_for(process);
  auto bytes = picture.read();
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || bytes.empty()) {
    throw Error(fmt::format("figures: gnuplot could not draw {}: {}", name, errors.read()));
  }
  return format == FigureFormat::svg ? marked_svg(std::move(bytes)) : marked_png(std::move(bytes));
}

}  // namespace kolo
