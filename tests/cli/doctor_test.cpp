// kolo doctor, and what the program does with command lines that are wrong.
#include <map>
#include <sstream>

#include "cli/doctor/checks.h"
#include "cli/program.h"
#include "kolo/comm/device.h"
#include "support/matchers.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

// Lines without marks that not every terminal has.
const std::map<std::string, std::string> ascii{{"LC_ALL", "C"}};

// The line of a finding, with its status: "ok      two ranks      started by ...".
std::string line_of(const std::string& output, const std::string& name) {
  constexpr std::size_t status = 8;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);)
    if (line.size() > status && line.substr(status).starts_with(name + " ")) return line;
  return "no " + name;
}

TEST(Doctor, PrintsALineForEachFindingAndExitsByTheWorst) {
  const auto result = run_kolo({"doctor"}, ascii);
  EXPECT_EQ(result.exit_code, says(result.output, {"PROBLEM"}) ? 1 : 0) << result.output;
  for (const char* name :
       {"MPI", "launcher", "host names", "two ranks", "two by MPI", "processors", "shared memory",
        "BLAS", "oneDNN", "kernels", "bfloat16", "LibTorch", "GPU", "data"})
    EXPECT_THAT(line_of(result.output, name), Not(StartsWith("no "))) << result.output;
  for (const char* name : {"CUDA"})
    EXPECT_EQ(line_of(result.output, name).starts_with("no "), !cuda_runtime()) << name;
  for (const char* name : {"two ranks", "two by MPI"})
    EXPECT_THAT(line_of(result.output, name), StartsWith("ok ")) << result.output;
  EXPECT_TRUE(says(line_of(result.output, "two ranks"), {"started by kolo itself"}));
  EXPECT_THAT(line_of(result.output, "GPU"),
              AllOf(StartsWith("ok "), HasSubstr("kolo trains on the CPU only")))
      << "there is nothing to mend";
  // Every warning and problem has a remedy, and nothing else has.
  std::istringstream lines(result.output);
  std::string line;
  std::getline(lines, line);  // the version
  bool needs_remedy = false;
  while (std::getline(lines, line)) {
    EXPECT_EQ(line.starts_with(' '), needs_remedy) << line;
    needs_remedy = !line.starts_with(' ') && !line.starts_with("ok ");
  }
  EXPECT_FALSE(needs_remedy);
}

GpuFacts facts_of_a_node() {
  GpuFacts facts;
  facts.devices = {
      {"H100", "0000:41:00.0", "9.0", true, std::size_t{79} << 30, std::size_t{80} << 30},
      {"H100", "0000:81:00.0", "9.0", true, 1 << 30, std::size_t{80} << 30}};
  facts.runtime = facts.libtorch = 12080;
  facts.driver = 12040;
  facts.cudnn = "cuDNN 9.10.2";
  facts.nccl = "NCCL 2.27.5";
  return facts;
}

TEST(Doctor, TellsWhatGpusThereAreAndWhatRunsThem) {
  const auto findings = check_gpus(facts_of_a_node());
  ASSERT_EQ(findings.size(), 4U);
  EXPECT_EQ(worst_status(findings), FindingStatus::ok) << "CUDA 12.8 runs on a driver for 12.4";
  EXPECT_EQ(findings[0].text,
            "runtime 12.8; LibTorch's 12.8; cuDNN 9.10.2; NCCL 2.27.5; driver for CUDA up to 12.4");
  EXPECT_EQ(findings[1].name, "GPU 0");
  EXPECT_EQ(findings[1].text,
            "H100, PCI 0000:41:00.0, compute capability 9.0, 79.0 GiB of 80.0 GiB free");
  EXPECT_EQ(findings[3].text, "each reaches all others' memory");
}

TEST(Doctor, TellsWhatToDoForGpusThatCanNotBeUsedWell) {
  auto facts = facts_of_a_node();
  facts.devices[1].has_kernels = false;
  facts.devices[1].capability = "7.5";
  facts.out_of_reach = {{0, 1}, {1, 0}};
  facts.runtime = facts.libtorch = 13000;
  const auto findings = check_gpus(facts);
  EXPECT_TRUE(says(findings[0].remedy, {"the driver is older than CUDA 13.0"}));
  EXPECT_EQ(findings[2].status, FindingStatus::problem);
  EXPECT_TRUE(says(findings[2].remedy, {"TORCH_CUDA_ARCH_LIST=7.5"}));
  EXPECT_TRUE(says(findings[3].text, {"from 0 to 1, 1 to 0"}));
  facts.driver = 0;
  EXPECT_TRUE(says(check_gpus(facts)[0].text, {"no driver"}));
}

TEST(Doctor, PrintsALineForEachFinding) {
  const std::vector<Finding> findings = {
      {.name = "one", .text = "fine"},
      {.name = "three", .status = FindingStatus::problem, .text = "bad", .remedy = "mend it"}};
  std::ostringstream plain;
  print_findings(plain, findings, false);
  EXPECT_EQ(plain.str(), "ok      one    fine\nPROBLEM three  bad\n               -> mend it\n");
  EXPECT_EQ(worst_status(findings), FindingStatus::problem);
  EXPECT_EQ(worst_status({}), FindingStatus::ok);
}

TEST(Doctor, MissingDataNamesThePackage) {
  const TemporaryFolder folder;
  const auto missing = check_fashion_mnist(folder / "none");
  EXPECT_EQ(missing.status, FindingStatus::warning);
  EXPECT_TRUE(says(missing.remedy, {"dataset-fashion-mnist"}));
  const auto empty = check_fashion_mnist(folder.path());
  EXPECT_EQ(empty.status, FindingStatus::warning);
}

TEST(Doctor, AQuotaBelowTheCpusIsAWarningUnlessThreadsAreSet) {
  const CpuLimits limits{.online = 8, .affinity = 8, .affinity_cores = 8, .quota = 2};
  const auto without = [](const char*) { return std::optional<std::string>(); };
  const auto with = [](const char*) { return std::optional<std::string>("2"); };
  EXPECT_EQ(check_processors(limits, without).status, FindingStatus::warning);
  EXPECT_TRUE(says(check_processors(limits, without).remedy, {"OMP_NUM_THREADS=2"}));
  EXPECT_EQ(check_processors(limits, with).status, FindingStatus::ok);
}

TEST(Doctor, SaysWhatOfOpenMpsVariablesIsNotFollowed) {
  const CpuLimits limits{.online = 8, .affinity = 8, .affinity_cores = 8};
  const auto text = [&](std::map<std::string, std::string> variables) {
    return check_processors(limits,
                            [variables](const char* name) {
                              const auto found = variables.find(name);
                              return found == variables.end() ? std::nullopt
                                                              : std::optional(found->second);
                            })
        .text;
  };
  EXPECT_FALSE(says(text({}), {"follow"}));
  EXPECT_THAT(text({{"OMP_PLACES", "cores"},
                    {"OMP_PROC_BIND", "false"},
                    {"KOLO_OMP_PROC_BIND_BEFORE", "close"}}),
              AllOf(HasSubstr("OMP_PLACES=cores, which kolo doesn't follow"),
                    HasSubstr("OMP_PROC_BIND=close, which"), Not(HasSubstr("=false"))));
  EXPECT_TRUE(says(text({{"OMP_THREAD_LIMIT", "1"}}), {"; OMP_THREAD_LIMIT=1"}));
}

TEST(Doctor, SaysWhichNamesNobodyAnswersFor) {
  const auto found = check_host_names({{"localhost", .01}, {"n1", .01}});
  EXPECT_EQ(found.status, FindingStatus::ok);
  EXPECT_EQ(found.text, "localhost and n1 looked up at once");
  const auto slow = check_host_names({{"localhost", .01}, {"n1", 5}});
  EXPECT_EQ(slow.status, FindingStatus::warning);
  EXPECT_EQ(slow.text, "looking up n1 took 5.0 s");
  EXPECT_TRUE(says(slow.remedy, {"mpirun", "/etc/hosts: 127.0.0.1 n1"}));
}

TEST(Doctor, SaysWhatMakesTheLauncherSlow) {
  const auto check = [](const EmptyJob& job, const LaunchConditions& conditions) {
    return check_empty_job("/usr/bin/mpirun", job, conditions, {"lo", "eth0"});
  };
  LaunchConditions conditions{.ranks = 2,
                              .shared_memory = SharedMemoryFolder{64 << 20, 64 << 20},
                              .names = {{"localhost", 5}, {"n1", .01}}};
  const auto quick = check({.command = "mpirun true", .seconds = .12}, conditions);
  EXPECT_EQ(quick.status, FindingStatus::ok);
  EXPECT_EQ(quick.text, "/usr/bin/mpirun; an empty job of two takes 0.12 s");
  const auto slow = check({.command = "mpirun true", .seconds = 5.2}, conditions);
  EXPECT_EQ(slow.status, FindingStatus::warning);
  EXPECT_TRUE(says(slow.text, {"takes 5.2 s"}));
  EXPECT_EQ(slow.remedy,
            "looking up localhost took 5.0 s: add a line to /etc/hosts: 127.0.0.1 localhost");
  conditions.names[0].seconds = .01;
  const auto unknown = check({.command = "mpirun true", .seconds = 5.2}, conditions);
  EXPECT_TRUE(says(unknown.text, {"looked up at once", "network interfaces: lo, eth0"}));
  EXPECT_EQ(unknown.remedy, "see where the time goes: strace -f -r mpirun true");
  const auto broken = check({.command = "mpirun true", .complaint = "no answer"}, conditions);
  EXPECT_EQ(broken.status, FindingStatus::problem);
  EXPECT_TRUE(says(broken.text, {"does not start an empty job: no answer"}));
}

TEST(Doctor, OneMachineNeedsNoMpirun) {
  const TemporaryFolder empty;
  const auto result =
      run_process({"env", "PATH=" + empty.path().string(), "LC_ALL=C", KOLO_PROGRAM, "doctor"},
                  {.deadline = kolo_deadline});
  EXPECT_THAT(line_of(result.output, "launcher"),
              AllOf(StartsWith("ok "), HasSubstr("one machine needs none")))
      << result.output << result.errors;
  EXPECT_THAT(line_of(result.output, "two ranks"), StartsWith("ok "));
  EXPECT_TRUE(says(line_of(result.output, "two by MPI"), {"not tried without a launcher"}));
}

TEST(Blas, KnowsWhichCoreIsTooOld) {
  const VectorUnits none, avx2{.avx2 = true}, avx512{.avx512 = true, .avx2 = true},
      zen{.avx2 = true, .is_amd = true}, zen4{.avx512 = true, .avx2 = true, .is_amd = true};
  EXPECT_EQ(better_core("Prescott", none), std::nullopt);
  EXPECT_EQ(better_core("Prescott", avx2), "Haswell");
  EXPECT_EQ(better_core("Prescott", avx512), "SkylakeX");
  EXPECT_EQ(better_core("Haswell", avx512), "SkylakeX");
  EXPECT_EQ(better_core("SkylakeX", avx512), std::nullopt);
  EXPECT_EQ(better_core("SapphireRapids", avx512), std::nullopt);
  EXPECT_EQ(better_core("Barcelona", zen), "Zen");
  EXPECT_EQ(better_core("Zen", zen4), std::nullopt);
  EXPECT_EQ(better_core("ARMV8", none), std::nullopt);
  EXPECT_EQ(better_core("", avx2), std::nullopt);
}

TEST(Blas, ADoctorOnTheRightCoreSaysSo) {
  const VectorUnits avx512{.avx512 = true, .avx2 = true};
  BlasLibrary library{
      .path = "/lib/libopenblas.so", .version = "OpenBLAS 0.3.21 X", .core = "Core2"};
  EXPECT_EQ(check_blas(library, avx512, "").status, FindingStatus::warning);
  EXPECT_TRUE(says(check_blas(library, avx512, "").remedy, {"OPENBLAS_CORETYPE=SkylakeX"}));
  library.core = "SkylakeX";
  EXPECT_EQ(check_blas(library, avx512, "Core2").status, FindingStatus::ok);
  EXPECT_TRUE(says(check_blas(library, avx512, "Core2").text, {"chose Core2"}));
  EXPECT_EQ(check_blas({.is_mkl = true}, avx512, "").status, FindingStatus::ok);
  EXPECT_EQ(check_blas({.path = "/lib/libblas.so.3"}, avx512, "").status, FindingStatus::warning);
}

TEST(Doctor, SaysWhatItWasBuiltWithAndWhatThatMeans) {
  constexpr auto ok = FindingStatus::ok, warning = FindingStatus::warning;
  const struct {
    Finding found;
    FindingStatus status;
    const char* words;
  } cases[] = {
      {check_onednn("2.6.0, instruction set AVX2"), ok, "2.6.0, instruction set AVX2"},
      {check_onednn(""), ok, "left out (KOLO_ONEDNN)"},
      {check_kernels("2.6.0", "brgconv:avx512_core", "jit:avx2"), ok,
       "2-D by oneDNN, brgconv:avx512_core; in 3-D by oneDNN, jit"},
      {check_kernels("2.6.0", "", ""), warning, "LibTorch's own operators"},
      {check_kernels("", "", ""), ok, "LibTorch's own operators"},
      {check_bfloat16("2.6.0", true), ok, "multiplies it"},
      {check_bfloat16("2.6.0", false), ok, "is no faster"},
      {check_bfloat16("", false), ok, "LibTorch's operators"},
  };
  for (const auto& [found, status, words] : cases) {
    EXPECT_EQ(found.status, status) << found.text;
    EXPECT_TRUE(says(found.text, {words}));
  }
}

TEST(Program, HelpIsShownAndWrongCommandLinesExitWith2) {
  const auto help = run_kolo({"doctor", "--help"});
  EXPECT_TRUE(succeeds(help, {"Example:"}));
  EXPECT_FALSE(says(help.output, {"--probe"}));
  const auto version = run_kolo({"--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_EQ(version.output, "kolo " KOLO_VERSION "\n");
  const auto wrong = run_kolo({"trian"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.errors, AllOf(StartsWith("kolo: "), HasSubstr("did you mean \"train\"?")));
  EXPECT_EQ(wrong.output, "");
}

}  // namespace
}  // namespace kolo::testing
