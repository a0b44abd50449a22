import CulpritStallRecord
import Testing

@testable import CulpritBlame
@testable import CulpritReports

@Suite struct ActivityTextTests {
  private func text(_ share: Double, _ delay: Double?, _ waiting: StallReport.Waiting? = nil) -> String {
    ActivityText.cpu(StallReport.CPUUse(share: share, runnableShare: delay), waiting)
  }

  @Test func distinguishesComputingWaitingAndRunnable() {
    #expect(text(0.97, 0.02) == "computing: on CPU 97 %")
    #expect(text(0.19, 0.80) == "computing: on CPU 19 %, runnable but waiting for a CPU 80 %")
    #expect(text(0.01, 0.97) == "computing: on CPU 1 %, runnable but waiting for a CPU 97 %")
    #expect(text(0.01, 0.02) == "waiting: on CPU 1 %")
    #expect(text(0.5, 0.01) == "computing and waiting in turn: on CPU 50 %")
    #expect(text(0.3, 0.3) == "computing and waiting in turn: on CPU 30 %, runnable but waiting for a CPU 30 %")
  }

  @Test func reportsSuspendedTasks() throws {
    func text(_ waiting: StallReport.Waiting) throws -> String {
      var finding = try #require(fullReport().culprit)
      (finding.cpuUse, finding.waiting) = (nil, waiting)
      return ActivityText.of(finding)
    }
    #expect(
      try text(StallReport.Waiting(samples: 9, of: 9, suspended: 9))
        == "waiting: its task was suspended in 9 of 9 samples"
    )
    #expect(
      try text(StallReport.Waiting(samples: 8, of: 9, systemCall: "futex", suspended: 6))
        == "its task was suspended in 6 of 9 samples; blocked in 2 of 9 samples, mostly in futex"
    )
  }

  @Test func isSuspendedInMoreThanHalfOfSamples() throws {
    var finding = try #require(fullReport().culprit)
    for (suspended, text) in [(4, "computing and waiting in turn"), (5, "suspended")] {
      (finding.cpuUse, finding.waiting) = (nil, StallReport.Waiting(samples: 5, of: 8, suspended: suspended))
      #expect(ActivityText.brief(finding) == text)
    }
  }

  /// CPU use is unknown if consecutive samples show different child tasks.
  @Test func describesComputingWithoutCPUUse() throws {
    var finding = try #require(fullReport().culprit)
    (finding.cpuUse, finding.waiting) = (nil, StallReport.Waiting(samples: 0, of: 13))
    #expect(ActivityText.of(finding) == "computing: running or runnable in 13 samples")
  }

  @Test func describesUnknownState() {
    var (stall, builder) = exampleStall()
    for place in stall.samples.indices {
      stall.samples[place].activity = .unknown
      stall.samples[place].cpuTime = nil
    }
    let text = builder.report(of: stall).text(width: 200)
    #expect(text.contains("CULPRIT") && text.contains("the thread's state is unknown"), "\(text)")
  }

  /// Some kernels do not report the time without a CPU.
  @Test func omitsUnknownDelay() {
    #expect(text(0.1, nil) == "on CPU 10 %")
    #expect(
      text(0.1, nil, StallReport.Waiting(samples: 0, of: 20))
        == "computing: on CPU 10 %; time without a CPU unknown"
    )
    #expect(text(0.1, nil, StallReport.Waiting(samples: 19, of: 20)) == "waiting: on CPU 10 %")
    #expect(text(0.1, nil, StallReport.Waiting(samples: 10, of: 20)) == "computing and waiting in turn: on CPU 10 %")
  }

  /// At least 4/5 of the time counts as all, at most 1/5 as none.
  @Test func boundsAreInclusive() {
    #expect(text(0.8, 0.2) == "computing: on CPU 80 %")
    #expect(text(0.75, 0.1) == "computing and waiting in turn: on CPU 75 %")
    #expect(text(0.1, 0.1) == "waiting: on CPU 10 %")
    #expect(text(0.02, 0.5) == "waiting: on CPU 2 %, runnable but waiting for a CPU 50 %")
    #expect(text(0.021, 0.5) == "computing and waiting in turn: on CPU 2 %, runnable but waiting for a CPU 50 %")
    #expect(text(0.2, nil, StallReport.Waiting(samples: 1, of: 5)).hasPrefix("computing: "))
    #expect(text(0.2, nil, StallReport.Waiting(samples: 4, of: 5)).hasPrefix("waiting: "))
    #expect(text(0.2, nil, StallReport.Waiting(samples: 3, of: 5)).hasPrefix("computing and waiting in turn: "))
    #expect(text(0.2, nil, StallReport.Waiting(samples: 0, of: 0)) == "on CPU 20 %")
  }

  @Test(arguments: [("x86_64", Int32(230), Int32(219)), ("aarch64", 115, 128)])
  func namesRestartedCalls(architecture: String, call: Int32, restart: Int32) {
    func name(_ call: Int32?, restarted: Bool) -> String? {
      SystemCallText.of(call, isRestarted: restarted, architecture: architecture)
    }
    #expect(name(call, restarted: true) == "clock_nanosleep (restarted)")
    #expect(name(call, restarted: false) == "clock_nanosleep")
    #expect(name(nil, restarted: true) == "a restarted system call")
    #expect(name(nil, restarted: false) == nil)
    // Files before version 1.3 contain the number of restart_syscall itself.
    #expect(name(restart, restarted: false) == "restart_syscall")
  }
}
