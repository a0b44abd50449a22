import Foundation
import Synchronization
import TestSupport
import Testing

/// What a service tells systemd, by a socket in systemd's place, and by systemd itself.
@Suite(.serialized) struct SystemdTests {
  /// Runs the service while `listener` reads what it says all the time, unless it `isDeaf`.
  private func run(
    _ arguments: [String],
    _ listener: SystemdListener,
    _ environment: [String: String],
    isDeaf: Bool = false
  ) throws -> (child: ChildProcess, heard: [String]) {
    var heard: [String] = []
    let child = try ChildProcess(
      ChildProcess.built("policy-process"),
      ["systemd"] + arguments,
      environment: environment.merging(["NOTIFY_SOCKET": listener.name]) { $1 }
    ) { id in
      // Until it has ended, waited for or not.
      while !isDeaf, let state = try? String(contentsOfFile: "/proc/\(id)/stat", encoding: .utf8),
        !state.contains(") Z ")
      {
        heard += listener.heard()
        usleep(5000)
      }
    }
    return (child, heard + listener.heard())
  }

  /// Both kinds of sockets.
  @Test(arguments: [false, true])
  func systemdIsToldOfTheServicesLife(isAbstract: Bool) throws {
    try withDirectory { directory in
      let listener = try SystemdListener(isAbstract ? "@culprit-test-\(UUID().uuidString)" : "\(directory)/notify")
      let (child, heard) = try run([], listener, ["WATCHDOG_USEC": "1000000"])
      #expect(child.hasExited && child.status == 0, "\(child)")
      let stuck = try #require(heard.firstIndex { $0.hasPrefix("STATUS=\"http\" has been stuck for 0.") }, "\(heard)")
      let over = try #require(heard.firstIndex(of: "STATUS="))
      #expect(heard.filter { $0 == "READY=1" }.count == 1)
      #expect(heard.firstIndex(of: "READY=1").map { $0 < stuck } == true)
      #expect(heard.firstIndex(of: "STATUS=serving READY=0").map { $0 < stuck } == true)
      #expect(heard[..<stuck].filter { $0 == "WATCHDOG=1" }.count >= 3)
      #expect(over == stuck + 1)
      #expect(heard[over...].filter { $0 == "WATCHDOG=1" }.count >= 2)
      #expect(heard.last == "STOPPING=1")
      // The one while it hung, in time for systemd, is not the one of its end.
      #expect(child.facts("report") == ["http, under way", "http, over"])
      #expect(child.fact("hangs") == "1")
    }
  }

  @Test func nobodyWaitsForSystemd() throws {
    try withDirectory { directory in
      let listener = try SystemdListener("\(directory)/notify")
      let (child, heard) = try run(["unread"], listener, ["WATCHDOG_USEC": "20000"], isDeaf: true)
      #expect(child.hasExited && child.status == 0, "\(child)")
      #expect(child.fact("unsent") == "Resource temporarily unavailable")
      #expect(heard.contains("READY=1") && heard.contains("WATCHDOG=1"))
    }
  }

  /// The variables of a process are inherited by its children.
  @Test func pingsAreForTheProcessThatSystemdMeans() throws {
    try withDirectory { directory in
      let listener = try SystemdListener("\(directory)/notify")
      let (child, heard) = try run(["unpinged"], listener, ["WATCHDOG_USEC": "20000", "WATCHDOG_PID": "1"])
      #expect(child.status == 0 && child.fact("pings") == "0", "\(child)")
      #expect(heard.contains("READY=1") && !heard.contains("WATCHDOG=1"))
    }
  }

  @Test func whatSystemdSaysWrongGetsASentence() throws {
    let child = try ChildProcess(
      ChildProcess.built("policy-process"),
      ["systemd", "unpinged"],
      environment: ["NOTIFY_SOCKET": "vsock:2:1234", "WATCHDOG_USEC": "soon"]
    )
    #expect(
      child.facts("problem") == [
        "systemd cannot be told anything: NOTIFY_SOCKET is \"vsock:2:1234\": Address family not supported by protocol",
        "WATCHDOG_USEC is \"soon\"; it must be a number of microseconds; systemd gets no pings",
      ]
    )
    #expect(child.fact("systemd") == "none")
  }

  private static let systemd = "/lib/systemd/systemd"

  /// A user's instance of systemd, with a service that hangs: it ends the service by SIGABRT, and by then the report is out, for
  /// which there are two seconds.
  /// In a mount namespace of its own, because systemd asks in /run whether it may run.
  @Test(.enabled(if: getuid() == 0 && FileManager.default.isExecutableFile(atPath: systemd), "takes root and systemd"))
  func theRealSystemdEndsWhatHangsAfterItsReport() throws {
    try withDirectory { directory in
      // Two instances share the control group: units of one name would be one group, which the first instance to end its service ends.
      let unit = "hanging-\(UUID().uuidString).service"
      try FileManager.default.createDirectory(atPath: "\(directory)/systemd/user", withIntermediateDirectories: true)
      chmod(directory, 0o700)
      try """
      [Service]
      Type=notify
      WatchdogSec=8
      LimitCORE=0
      Environment=SWIFT_BACKTRACE=enable=no
      ExecStart=\(ChildProcess.built("policy-process")) systemd killed
      StandardOutput=file:\(directory)/said
      """
      .write(toFile: "\(directory)/systemd/user/\(unit)", atomically: true, encoding: .utf8)
      try """
      mount -t tmpfs none /run || exit 77
      mkdir -p /run/systemd/system
      export XDG_RUNTIME_DIR=\(directory) XDG_CONFIG_HOME=\(directory)
      \(Self.systemd) --user --log-target=console >\(directory)/log 2>&1 &
      manager=$!
      for i in $(seq 300); do
        [ -S \(directory)/systemd/private ] && break
        kill -0 $manager 2>/dev/null || exit 77
        sleep 0.1
      done
      # Returns when the service has said READY=1.
      systemctl --user start \(unit) && echo started=yes
      for i in $(seq 600); do
        systemctl --user is-failed --quiet \(unit) && break
        sleep 0.1
      done
      systemctl --user show --property=Result,ExecMainStatus \(unit)
      kill $manager
      wait $manager
      exit 0
      """
      .write(toFile: "\(directory)/go", atomically: true, encoding: .utf8)
      let outcome = try ChildProcess("/usr/bin/unshare", ["--mount", "sh", "\(directory)/go"])
      if outcome.status == 77 { try Test.cancel("namespaces are refused, or systemd does not run for want of cgroups") }
      #expect(outcome.fact("started") == "yes" && outcome.fact("Result") == "watchdog", "\(outcome)")
      #expect(outcome.fact("ExecMainStatus") == "\(SIGABRT)")
      let said = try String(contentsOfFile: "\(directory)/said", encoding: .utf8)
      // On a busy machine it may have been stuck before, for a moment.
      let reports = said.split(separator: "\n")
      #expect(reports.last == "report=http, under way", "\(said)")
      #expect(reports.dropLast().allSatisfy { $0 == "report=http, over" }, "\(said)")
    }
  }
}
