import Foundation
import TestSupport
import Testing

@Suite(.ownThread) struct SystemdServiceTests {
  @TemporaryDirectory private var directory: String

  private static let systemd = "/lib/systemd/systemd"

  /// A user instance of systemd aborts a hanging service, which must print its report before.
  /// The mount namespace replaces /run, which systemd checks at its start.
  @Test(.needsNamespaces, .enabled(if: FileManager.default.isExecutableFile(atPath: systemd), "needs systemd"))
  func reportsBeforeSystemdEndsService() throws {
    // Instances share the control group, so each needs a unique unit name.
    let unit = "hanging-\(UUID().uuidString).service"
    try FileManager.default.createDirectory(atPath: "\(directory)/systemd/user", withIntermediateDirectories: true)
    chmod(directory, 0o700)
    try """
    [Service]
    Type=notify
    WatchdogSec=8
    LimitCORE=0
    Environment=SWIFT_BACKTRACE=enable=no
    ExecStart=\(ChildProcess.built("policy-process")) hang-under-systemd
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
    # Returns after READY=1 with success, and waits for the end of the service with --wait.
    systemctl --user start \(unit) && echo started=yes
    systemctl --user start --wait \(unit)
    systemctl --user show --property=Result,ExecMainStatus \(unit)
    kill $manager
    wait $manager
    exit 0
    """
    .write(toFile: "\(directory)/go", atomically: true, encoding: .utf8)
    let outcome = try ChildProcess("/usr/bin/unshare", ["--mount", "sh", "\(directory)/go"])
    if outcome.status == 77 { try Test.cancel("needs namespaces and control groups for systemd") }
    #expect(outcome.fact("started") == "yes" && outcome.fact("Result") == "watchdog", "\(outcome)")
    #expect(outcome.fact("ExecMainStatus") == "\(SIGABRT)")
    let said = try String(contentsOfFile: "\(directory)/said", encoding: .utf8)
    // On a busy machine, reports of ended stalls can come first.
    let reports = said.split(separator: "\n")
    #expect(reports.last == "report=http, under way", "\(said)")
    #expect(reports.dropLast().allSatisfy { $0 == "report=http, over" }, "\(said)")
  }
}
