# shellcheck shell=bash
# shellcheck disable=SC2154  # set by the test that sources this
# What the tests of jobs share: asking Slurm, and looking at runs.

fail() {
  echo "FAILED: $*" >&2
  for log in "$folder"/*.log; do [[ ! -e $log ]] || { echo "--- $log"; cut -c1-200 "$log"; } >&2; done
  exit 1
}
expect() { "$@" || fail "expected: $*"; }
has() { grep -qF -- "$2" "$1"; }  # has FILE TEXT
has_not() { ! has "$@"; }

# submit NAME ARGUMENTS OF SBATCH...: prints the job's number; its log is NAME.log.
submit() { sbatch --parsable --output="$folder/$1.log" "${@:2}"; }

job_value() { scontrol show job -o "$1" | grep -oP "(?<= $2=)[^ ]*" | head -n 1; }

# wait_until SECONDS COMMAND...
wait_until() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    ((SECONDS < end)) || return 1
    sleep 0.2
  done
}

is_over() { [[ $(job_value "$1" JobState) =~ ^(COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL)$ ]]; }
wait_for_job() { wait_until 400 is_over "$1" || fail "job $1 is not over: $(job_value "$1" JobState)"; }

# ends_with JOB STATE [EXIT STATUS]
ends_with() {
  wait_for_job "$1"
  [[ $(job_value "$1" JobState) == "$2" ]] || fail "job $1 ended as $(job_value "$1" JobState), not $2"
  [[ ! ${3:-} || $(job_value "$1" ExitCode) == "$3:0" ]] || fail "job $1: status $(job_value "$1" ExitCode), not $3"
}

epochs_of() { grep -c '"epoch":' "$1/history.json"; }
has_trained() { [[ -e $1/history.json && $(epochs_of "$1") -ge $2 ]]; }  # has_trained RUN EPOCHS

# Without what no two runs have in common: times, and how checkpoints were written.
curves_of() { grep -v '"stall_seconds"' "$1/history.json" | grep -oE '"(epoch|step|loss|val_loss|accuracy|val_accuracy|lr)":[^,]*'; }

# Two runs that are to have come to the very same end.
expect_same_run() {
  local last
  last=$(cd "$1/checkpoints" && printf '%s\n' step-* | tail -n 1)
  for file in model.safetensors optimizer.safetensors; do
    expect cmp "$1/checkpoints/$last/$file" "$2/checkpoints/$last/$file"
  done
  [[ $(curves_of "$1") == "$(curves_of "$2")" ]] || fail "the histories of $1 and $2 differ"
}
