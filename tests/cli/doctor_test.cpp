// kolo doctor, and what the program does with command lines that are wrong.
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "cli/doctor/checks.h"
#include "cli/program.h"
#include "kolo/base/text.h"
#include "kolo/comm/device.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Doctor, PrintsOneJsonObjectAndExitsByTheWorst) {
  const auto result = run_kolo({"doctor", "--json"});
  const auto report = nlohmann::json::parse(result.output, nullptr, false);
  ASSERT_TRUE(report.is_object()) << result.output << result.errors;
  EXPECT_EQ(result.exit_code, report["status"] == "problem" ? 1 : 0) << result.output;
  std::vector<std::string> names;
  for (const auto& finding : report["findings"]) {
    names.push_back(finding["name"]);
    EXPECT_NE(finding["text"], "") << finding;
    EXPECT_EQ(finding["status"] != "ok", finding["remedy"] != "") << finding;
  }
  EXPECT_EQ(join(names), std::string("MPI, launcher, host names, two ranks, two by MPI, "
                                     "processors, shared memory, BLAS, oneDNN, "
                                     "kernels, bfloat16, LibTorch, GPU, ") +
                             (cuda_runtime() ? "CUDA, " : "") + "data, commands");
  for (const int two : {3, 4})
    EXPECT_EQ(report["findings"][two]["status"], "ok") << report["findings"][two];
  EXPECT_TRUE(says(report["findings"][3]["text"].get<std::string>(), {"started by kolo itself"}));
  const auto& gpu = report["findings"][12];
  EXPECT_EQ(gpu["status"], "ok") << "there is nothing to mend";
  EXPECT_TRUE(says(gpu["text"].get<std::string>(), {"kolo trains on the CPU only"}));
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
            "runtime 12.8; LibTorch's 12.8; cuDNN 9.10.2; NCCL 2.27.5; driver for CUDA up to "
            "12.4");
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
  std::vector<Finding> findings = {
      {.name = "one", .text = "fine"},
      {.name = "three", .status = FindingStatus::problem, .text = "bad", .remedy = "mend it"}};
  std::ostringstream plain;
  print_findings(plain, findings, false);
  EXPECT_EQ(plain.str(), "ok      one    fine\nPROBLEM three  bad\n               -> mend it\n");
  EXPECT_EQ(exit_status_of(findings), 1);
  findings[1].status = FindingStatus::warning;
  EXPECT_EQ(exit_status_of(findings), 0);
  EXPECT_EQ(exit_status_of({}), 0);
}

TEST(Doctor, MissingDataNamesThePackage) {
  const TemporaryFolder folder;
  const auto missing = check_fashion_mnist(folder / "none");
  EXPECT_EQ(missing.status, FindingStatus::warning);
  EXPECT_TRUE(says(missing.remedy, {"dataset-fashion-mnist"}));
  const auto empty = check_fashion_mnist(folder.path());
  EXPECT_EQ(empty.status, FindingStatus::warning);
}

TEST(Doctor, SaysWhatItWasBuiltWithout) {
  EXPECT_EQ(check_cosmology(true).status, FindingStatus::ok);
  const auto without = check_cosmology(false);
  EXPECT_EQ(without.status, FindingStatus::warning);
  EXPECT_EQ(without.text, "built without kolo data nbody");
  EXPECT_TRUE(says(without.remedy, {"FFTW"}));
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
      run_process({"env", "PATH=" + empty.path().string(), KOLO_PROGRAM, "doctor", "--json"},
                  {.deadline = kolo_deadline});
  const auto report = nlohmann::json::parse(result.output, nullptr, false);
  ASSERT_TRUE(report.is_object()) << result.output << result.errors;
  const auto& findings = report["findings"];
  EXPECT_EQ(findings[1]["status"], "ok") << findings[1];
  EXPECT_TRUE(says(findings[1]["text"].get<std::string>(), {"one machine needs none"}));
  EXPECT_EQ(findings[3]["status"], "ok") << findings[3];
  EXPECT_EQ(findings[4]["text"], "not tried without a launcher");
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

TEST(Doctor, KernelsThatAreNotVectorisedAreAWarning) {
  const auto fast = check_kernels("2.6.0", "brgconv:avx512_core", "jit:avx2");
  EXPECT_EQ(fast.status, FindingStatus::ok);
  EXPECT_TRUE(says(fast.text, {"2-D by oneDNN, brgconv:avx512_core; in 3-D by oneDNN, jit"}));
  const auto slow = check_kernels("2.6.0", "", "");
  EXPECT_EQ(slow.status, FindingStatus::warning);
  EXPECT_TRUE(says(slow.text, {"LibTorch's own operators"}));
}

TEST(Doctor, SaysWhetherBfloat16Pays) {
  EXPECT_TRUE(says(check_bfloat16("2.6.0", true).text, {"multiplies it"}));
  EXPECT_TRUE(says(check_bfloat16("2.6.0", false).text, {"is no faster"}));
  EXPECT_TRUE(says(check_bfloat16("", false).text, {"LibTorch's operators"}));
}

TEST(Doctor, ABuildWithoutOneDnnSaysSo) {
  EXPECT_EQ(check_onednn("2.6.0, instruction set AVX2").text, "2.6.0, instruction set AVX2");
  const auto without = check_onednn("");
  EXPECT_EQ(without.status, FindingStatus::ok) << "there is nothing to mend";
  EXPECT_TRUE(says(without.text, {"left out (KOLO_ONEDNN)"}));
  EXPECT_EQ(check_kernels("", "", "").status, FindingStatus::ok);
}

TEST(Program, HelpShowsExamples) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--help"}, {"train", "--help"}, {"doctor", "--help"}}) {
    const auto result = run_kolo(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_TRUE(says(result.output, {"Examples:"}));
    EXPECT_FALSE(says(result.output, {"--probe"}));
  }
  const auto version = run_kolo({"--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_EQ(version.output, "kolo " KOLO_VERSION "\n");
}

TEST(Program, WrongCommandLinesExitWith2) {
  const auto refuse = [](const std::vector<std::string>& arguments, const std::string& words) {
    const auto result = run_kolo(arguments);
    EXPECT_EQ(result.exit_code, 2) << result.output << result.errors;
    EXPECT_TRUE(says(result.errors, {words}));
    EXPECT_EQ(result.errors.find("kolo: "), 0U) << result.errors;
    EXPECT_EQ(result.output, "");
  };
  refuse({}, "name a command: train, eval");
  refuse({"trian"}, "did you mean \"train\"?");
  refuse({"qqqqqq"},
         "the commands are train, eval, predict, bench, scale, sweep, run, timeline, report, data, "
         "doctor");
  refuse({"reference", "--list"}, "reference is no command any more; kolo sweep");
  refuse({"doctor", "--jsonn"}, "--jsonn");
  refuse({"train"}, "file");
  refuse({"train", "x.yaml", "-n", "two"}, "two");
}

}  // namespace
}  // namespace kolo::testing
