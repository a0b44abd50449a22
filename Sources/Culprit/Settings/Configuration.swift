import CulpritStallRecord
import Glibc

/// How a ``Watchdog`` watches.
public struct Configuration: Sendable {
  /// How long a work item may take before it counts as a stall. At least 10 ms; 4 s unless told otherwise.
  ///
  /// Sections have budgets of their own.
  public var stallThreshold: Duration

  /// The time between samples once a stall has been declared. From 10 ms up to the threshold; 1 s unless told
  /// otherwise, or the threshold where that is shorter.
  ///
  /// Before the threshold samples are taken every twentieth of it, from an eighth of it on: code that has finished when
  /// the threshold is passed must be in the record too.
  public var sampleInterval: Duration

  /// How long a work item may take before its stall counts as a hang, if it may take ``stallThreshold``. What may take
  /// longer or shorter is a hang so much later than a stall. At least the threshold; when `nil`, as it is unless told
  /// otherwise, 8 s, or twice the threshold where that is longer.
  public var hangThreshold: Duration?

  /// How long after its threshold a stall is a hang.
  var hangDelay: Duration { (hangThreshold ?? max(.seconds(8), stallThreshold * 2)) - stallThreshold }

  /// How many stalls are reported in a minute at most. What comes then is counted, and saved all the same. 60 unless
  /// told otherwise.
  public var reportsPerMinute = 60

  /// How many of those may have the same source and culprit; 10 unless told otherwise.
  public var reportsPerCulprit = 10

  /// How many activities may go on at a time; 1,000 unless told otherwise.
  public var activitiesMax = 1000

  /// How long the expiration handlers of activities may take that are called together, before that is itself reported.
  /// At least 10 ms; 1 s unless told otherwise.
  public var expirationBudget = Duration.seconds(1)

  /// What is done about a stall while a debugger is attached, which may be what makes threads stand still.
  public enum Debugged: Sendable {
    /// It is reported, and the report says so.
    case marked
    /// It is neither reported nor saved.
    case ignored
  }

  /// What is done about a stall while a debugger is attached; it is marked unless told otherwise.
  public var whileDebugged = Debugged.marked

  /// The directory that stalls are saved in, one `.stall` file each; made when it does not exist. `nil` (as it is
  /// unless told otherwise) saves nothing.
  public var directory: String?

  /// How much may be kept in ``directory``.
  public var directoryLimits = DirectoryLimits()

  /// Whether the files of stalls that ended are kept. `true` unless told otherwise; otherwise only what the process did
  /// not survive is.
  public var keepsRecoveredStalls = true

  /// Whether the signal that ends the process is noted in ``directory``, for ``Watchdog/onPreviousRun(_:)``: a handler
  /// for the signals that tell of a fault is installed, which puts back what was there before and passes the signal on
  /// to that. A service whose own handlers survive such signals should not have it. `true` unless told otherwise;
  /// nothing is installed without a directory.
  public var notesCrashes = true

  /// How much of a stack is copied at most, in bytes. From 4 KiB to 8 MiB; 8 MiB unless told otherwise. What lies
  /// beyond is missing from the stack, and the report says so. Of stacks deeper than 128 KiB one is copied whole at a
  /// time; the memory for it is used only while there are such stacks.
  public var stackBytesMax: Int

  /// How much memory the names of addresses may take while stalls are reported, in bytes, about. At least 1 MiB; 64 MiB
  /// unless told otherwise. Beyond that, what was read of symbols and debug information is forgotten, and read again
  /// when it is needed. Files that are mapped do not count: the kernel takes that memory back when it is short.
  public var symbolMemory: Int

  /// The length of a line in reports, in characters. At least 40; 100 unless told otherwise.
  public var reportWidth: Int

  /// What counts as the application's own code beside the package that is built: names of Swift modules (`NIOCore`), of
  /// packages that it depends on (`swift-nio`), of shared libraries (`libshop.so`), or paths of sources or libraries,
  /// with all that is below them (`/srv/build/shop`). None unless told otherwise. What is the application's own is what
  /// can be to blame.
  public var ownModules: [String] = []

  /// Functions of the application's own that are passed over, so that who calls them is to blame: `Lock.lock()`,
  /// without labels `Lock.lock`, with the module `Shop.Lock.lock()`, with everything behind it `Lock.*`. None unless
  /// told otherwise.
  public var wrappers: [String] = []

  /// Whether anything is watched. A watchdog that is switched off costs its idle threads; it can be switched on by
  /// ``Watchdog/reconfigure(_:)`` or by the configuration file. `true` unless told otherwise.
  public var isEnabled = true

  /// How long a work item may take before the process is ended for it: SIGABRT on the stuck thread, with the reason on
  /// standard error, after the record has been saved. At least ``stallThreshold``; a section's budget counts as well,
  /// if it is longer. `nil`, as it is unless told otherwise, ends no process.
  public var terminateAfter: Duration?

  /// How long the launch may take, from the start of the process to ``Watchdog/launched()``. A launch that takes longer
  /// is a stall of the main thread. At least 10 ms; `nil`, as it is unless told otherwise, lets it take its time.
  public var launchBudget: Duration?

  /// How long the shutdown may take, from ``Watchdog/shuttingDown()``, or SIGTERM, to the end of the process. One that
  /// takes longer is a stall of the main thread. At least 10 ms; `nil`, as it is unless told otherwise, lets it take
  /// its time.
  public var shutdownBudget: Duration?

  /// Whether SIGTERM begins the shutdown. The service's own handler for it is called as before, and there must be one:
  /// where SIGTERM has its default action, or is ignored, blocked or read by signalfd(2), it stays so and is not
  /// noticed, and ``Watchdog/shuttingDown()`` is to be called. `false` unless told otherwise.
  public var noticesTermination = false

  /// Whether debug information is fetched from the servers in DEBUGINFOD_URLS (debuginfod(8)) for the reports of
  /// stalls, where elfutils' client library is installed. It tells those servers what runs here, and may take long: a
  /// thread of its own fetches, a report waits for it no longer than ``debugInformationPatience``, and
  /// ``Watchdog/stop()`` for 1.5 s. Without it no part of the watchdog ever uses the network. `false` unless told
  /// otherwise.
  public var fetchesDebugInformation = false

  /// How long a report waits for debug information from servers, all files of it together; 5 s unless told otherwise.
  /// What comes later is there for the next report.
  public var debugInformationPatience = Duration.seconds(5)

  /// Whether systemd is told how the service is: READY=1 by ``Watchdog/launched()``, STOPPING=1 by
  /// ``Watchdog/shuttingDown()``, and, where the unit has WatchdogSec, WATCHDOG=1 as long as no source hangs. `false`
  /// unless told otherwise: a service that tells systemd all that itself goes on doing so.
  public var notifiesSystemd = false

  /// A configuration with what is not given as described at each property.
  public init(
    stallThreshold: Duration = .seconds(4),
    hangThreshold: Duration? = nil,
    sampleInterval: Duration? = nil,
    directory: String? = nil,
    stackBytesMax: Int = 8 << 20,
    symbolMemory: Int = 64 << 20,
    reportWidth: Int = 100
  ) {
    self.stallThreshold = stallThreshold
    self.hangThreshold = hangThreshold
    self.sampleInterval = sampleInterval ?? min(.seconds(1), stallThreshold)
    self.directory = directory
    self.stackBytesMax = stackBytesMax
    self.symbolMemory = symbolMemory
    self.reportWidth = reportWidth
  }

  /// The shortest threshold, budget and interval. Shorter ones would be near the resolution of the clock that work
  /// items are stamped with (4 ms on most kernels).
  static let shortestTime = Duration.milliseconds(10)

  /// Checks everything that can be checked without touching the system.
  func validate() throws(WatchdogError) {
    func refuse(_ what: String, _ found: String, _ expected: String) -> WatchdogError {
      .invalidConfiguration("\(what) is \(found); it must be \(expected)")
    }
    guard stallThreshold >= Self.shortestTime, stallThreshold <= WatchLimits.longestTime else {
      throw refuse("stallThreshold", "\(stallThreshold)", "from \(Self.shortestTime) to \(WatchLimits.longestTime)")
    }
    if let hangThreshold, hangThreshold < stallThreshold || hangThreshold > WatchLimits.longestTime {
      throw refuse(
        "hangThreshold",
        "\(hangThreshold)",
        "from the stallThreshold of \(stallThreshold) to \(WatchLimits.longestTime)"
      )
    }
    guard reportsPerMinute >= 1, reportsPerCulprit >= 1 else {
      throw refuse(
        "reportsPerMinute and reportsPerCulprit",
        "\(reportsPerMinute) and \(reportsPerCulprit)",
        "at least 1"
      )
    }
    guard activitiesMax >= 1 else { throw refuse("activitiesMax", "\(activitiesMax)", "at least 1") }
    guard expirationBudget >= Self.shortestTime else {
      throw refuse("expirationBudget", "\(expirationBudget)", "at least \(Self.shortestTime)")
    }
    guard sampleInterval >= Self.shortestTime, sampleInterval <= stallThreshold else {
      throw refuse(
        "sampleInterval",
        "\(sampleInterval)",
        "from \(Self.shortestTime) to the stallThreshold of \(stallThreshold)"
      )
    }
    if let terminateAfter, terminateAfter < stallThreshold || terminateAfter > WatchLimits.longestTime {
      throw refuse(
        "terminateAfter",
        "\(terminateAfter)",
        "from the stallThreshold of \(stallThreshold) to \(WatchLimits.longestTime)"
      )
    }
    for (name, budget) in [("launchBudget", launchBudget), ("shutdownBudget", shutdownBudget)] {
      guard let budget, budget < Self.shortestTime || budget > WatchLimits.longestTime else { continue }
      throw refuse(name, "\(budget)", "from \(Self.shortestTime) to \(WatchLimits.longestTime)")
    }
    guard debugInformationPatience >= .zero, debugInformationPatience <= WatchLimits.longestTime else {
      throw refuse("debugInformationPatience", "\(debugInformationPatience)", "from 0 to \(WatchLimits.longestTime)")
    }
    guard (4 << 10...8 << 20).contains(stackBytesMax) else {
      throw refuse("stackBytesMax", "\(stackBytesMax)", "from 4096 to 8388608 bytes")
    }
    guard symbolMemory >= 1 << 20 else {
      throw refuse("symbolMemory", "\(symbolMemory)", "at least 1048576 bytes")
    }
    guard directoryLimits.bytes >= 0, directoryLimits.files >= 0, directoryLimits.age >= .zero else {
      throw refuse(
        "directoryLimits",
        "\(directoryLimits.bytes) bytes, \(directoryLimits.files) files, \(directoryLimits.age)",
        "at least 0 each"
      )
    }
    guard reportWidth >= 40 else { throw refuse("reportWidth", "\(reportWidth)", "at least 40 characters") }
    if let directory, directory.isEmpty || directory.utf8.contains(0) {
      throw refuse("directory", "\"\(directory)\"", "a path")
    }
  }
}

/// When a source's work items are looked at: what a threshold and an interval mean for the monitor.
struct WatchLimits: Equatable {
  var suspicion: Duration
  var threshold: Duration
  var earlyInterval: Duration
  var interval: Duration

  /// Longer than any service runs, and far enough from the end of 64 bits for sums of two such times.
  static let longestTime = Duration.seconds(1 << 31)

  init(threshold: Duration, interval: Duration) {
    let threshold = min(threshold, Self.longestTime)
    self.threshold = threshold
    self.interval = min(interval, threshold)
    suspicion = threshold / 8
    earlyInterval = threshold / 20
  }
}

/// Why a watchdog cannot do what it was asked for.
public enum WatchdogError: Error, Equatable, CustomStringConvertible {
  /// A value in the configuration makes no sense.
  case invalidConfiguration(String)
  /// A watchdog is running in this process already, and there can be one at a time.
  case alreadyRunning
  /// The watchdog has been stopped.
  case stopped
  /// The watchdog watches the process `watched`, of which this one is a child (fork(2)).
  case notInThisProcess(watched: Int32)
  /// What was asked for was not done in time.
  case noAnswer(within: Duration)
  /// The loop is watched already.
  case alreadyWatched(String)
  /// As many activities are going on as can be at a time.
  case tooManyActivities(limit: Int)
  /// As many sources are watched as can be at a time.
  case tooManySources(limit: Int)
  /// This process has no run loops: it does not link Foundation.
  case noRunLoops
  /// Stacks cannot be captured here.
  case cannotObserve(String)
  /// This setting is fixed while a watchdog runs.
  case cannotChange(String)
  /// The watchdog was not started, because CULPRIT_DISABLE says so.
  case disabled
  /// The directory for saved stalls cannot be used.
  case unusableDirectory(path: String, reason: String)

  /// The error in one sentence, on one line: names and paths are printed as reports print them.
  public var description: String { printable(sentence) }

  private var sentence: String {
    switch self {
    case .invalidConfiguration(let what): what
    case .alreadyRunning: "a watchdog is running in this process already; stop() it before another is started"
    case .stopped: "the watchdog has been stopped"
    case .notInThisProcess(let watched): "the watchdog watches process \(watched), of which this one is a child"
    case .noAnswer(let timeout): "the threads were not captured within \(timeout)"
    case .alreadyWatched(let name): "\(quoted(name)) is watched already"
    case .tooManySources(let limit): "\(limit) sources are watched already, which is the most at a time"
    case .tooManyActivities(let limit):
      "\(limit) activities are going on already, which is the most at a time; some may never have been ended"
    case .noRunLoops: "this process has no run loops, because it does not link Foundation"
    case .cannotObserve(let why): "stacks cannot be captured here: \(why)"
    case .cannotChange(let name): "\(name) cannot be changed while the watchdog runs"
    case .disabled: "the watchdog was not started, because CULPRIT_DISABLE is set"
    case .unusableDirectory(let path, let reason):
      "stalls cannot be saved in \(printable(path, limit: sentencePartMax)): \(reason)"
    }
  }

  /// A thread of the watchdog's could not be started: the error `number` of pthread_create(3).
  static func threadNotStarted(_ number: Int32) -> WatchdogError {
    .cannotObserve("a thread cannot be started: \(String(cString: strerror(number)))")
  }
}
