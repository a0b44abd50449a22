extension Watchdog {
  /// How a watchdog watches: what counts as a stall, how it is reported and saved, and what is done about it.
  ///
  ///     var configuration = Watchdog.Configuration(threshold: .seconds(4), directory: "/var/lib/shop/stalls")
  ///     configuration.lifecycle.notifiesSystemd = true
  ///     let watchdog = try Watchdog(configuration)
  public struct Configuration: Hashable, Sendable {
    /// What counts as a stall, and how it is sampled.
    public var sampling = Sampling()
    /// How stalls are reported.
    public var reporting = Reporting()
    /// What is saved, and where.
    public var storage = Storage()
    /// What is done about the process: its launch, its shutdown, and work that does not end.
    public var lifecycle = Lifecycle()
    /// How many activities there may be, and what their handlers may take.
    public var activities = Activities()
    /// Whether anything is watched; default: `true`. A watchdog that is switched off costs its idle threads; it can be
    /// switched on by ``Watchdog/reconfigure(_:)`` or by the configuration file. Where the environment says
    /// `CULPRIT_ENABLED=no`, nothing is started at all, and nothing can switch it on.
    public var isEnabled = true

    /// A configuration of defaults, but for what is given.
    ///
    /// - Parameters:
    ///   - threshold: As ``Sampling/threshold``.
    ///   - hangThreshold: As ``Sampling/hangThreshold``.
    ///   - interval: As ``Sampling/interval``.
    ///   - directory: As ``Storage/directory``.
    public init(
      threshold: Duration = .seconds(4),
      hangThreshold: Duration? = nil,
      interval: Duration? = nil,
      directory: String? = nil
    ) {
      sampling.threshold = threshold
      sampling.hangThreshold = hangThreshold
      sampling.interval = interval
      storage.directory = directory
    }
  }
}

extension Watchdog.Configuration {
  /// What counts as a stall, and how it is sampled.
  public struct Sampling: Hashable, Sendable {
    /// The defaults.
    public init() {}

    /// How long a work item may take before it counts as a stall; default: 4 s. At least 10 ms.
    ///
    /// Loops and other sources may have thresholds of their own, and sections always have.
    public var threshold = Duration.seconds(4)

    /// How long a work item may take before its stall counts as a hang, if it may take ``threshold``. What may take
    /// longer or shorter is a hang so much later than a stall. At least the threshold; default (`nil`): 8 s, or twice the
    /// threshold where that is longer.
    public var hangThreshold: Duration?

    /// The time between samples once a stall has been declared. From 10 ms up to the threshold; default (`nil`): 1 s, or the
    /// threshold where that is shorter.
    ///
    /// Before the threshold samples are taken every twentieth of it, from an eighth of it on: code that has finished when
    /// the threshold is passed must be in the record too.
    public var interval: Duration?

    /// How much of a stack is copied at most, in bytes; default: 8 MiB. From 4 KiB to 8 MiB. What lies beyond is
    /// missing from the stack, and the report says so. Of stacks deeper than 128 KiB one is copied whole at a time; the memory
    /// for it is used only while there are such stacks.
    public var stackBytesMax = 8 << 20

    /// What is done about a stall while a debugger is attached; default: it is marked.
    public var whileDebugged = Debugged.marked

    /// What is done about a stall while a debugger is attached, which may be what makes threads stand still.
    public struct Debugged: Hashable, Sendable {
      private var isMarked: Bool
      /// It is reported, and the report says so.
      public static let marked = Debugged(isMarked: true)
      /// It is neither reported nor saved.
      public static let ignored = Debugged(isMarked: false)
    }
  }

  /// How stalls are reported.
  public struct Reporting: Hashable, Sendable {
    /// The defaults.
    public init() {}

    /// How many stalls are reported in a minute at most; default: 60. What comes then is counted, and saved all the same.
    public var perMinute = 60

    /// How many of those may have the same source and culprit; default: 10.
    public var perCulprit = 10

    /// The length of a line in reports, in characters; default: 100. At least 40.
    public var width = 100

    /// How much memory the names of addresses may take while stalls are reported, in bytes, about; default: 64 MiB. At least
    /// 1 MiB. Beyond that, what was read of symbols and debug information is forgotten, and read again when it is needed.
    /// Files that are mapped do not count: the kernel takes that memory back when it is short.
    public var symbolBytesMax = 64 << 20

    /// What counts as the application's own code beside the package that is built: names of Swift modules (`NIOCore`), of
    /// packages that it depends on (`swift-nio`), of shared libraries (`libshop.so`), or paths of sources or libraries, with
    /// all that is below them (`/srv/build/shop`); default: none. What is the application's own is what can be to blame.
    public var ownModules: [String] = []

    /// Functions of the application's own that are passed over, so that who calls them is to blame: `Lock.lock()`, without
    /// labels `Lock.lock`, with the module `Shop.Lock.lock()`, with everything behind it `Lock.*`; default: none.
    public var wrappers: [String] = []

    /// Whether debug information is fetched from the servers in DEBUGINFOD_URLS (debuginfod(8)) for the reports of stalls,
    /// where elfutils' client library is installed; default: `false`. It tells those servers what runs here, and may take long:
    /// a thread of its own fetches, a report waits for it no longer than ``fetchPatience``, and ``Watchdog/stop()`` for 1.5 s.
    /// Without it no part of the watchdog ever uses the network.
    public var fetchesDebugInformation = false

    /// How long a report waits for debug information from servers, all files of it together; default: 5 s. What comes
    /// later is there for the next report.
    public var fetchPatience = Duration.seconds(5)
  }

  /// What is saved, and where.
  public struct Storage: Hashable, Sendable {
    /// The defaults.
    public init() {}

    /// The directory that stalls are saved in, one `.stall` file each; made when it does not exist. Default (`nil`): nothing
    /// is saved.
    public var directory: String?

    /// How many bytes the files of stalls may have together; default: 256 MiB. The oldest go first.
    public var bytesMax = 256 << 20

    /// How many stalls are kept; default: 1,000. The oldest go first.
    public var filesMax = 1000

    /// How old a file may become; default: 30 days.
    public var ageMax = Duration.seconds(30 * 86_400)

    /// Whether the files of stalls that ended are kept; default: `true`. Otherwise only what the process did not
    /// survive is.
    public var keepsRecoveredStalls = true

    /// Whether the signal that ends the process is noted in ``directory``, for ``Watchdog/onPreviousRun(_:)``; default:
    /// `true`. A handler for the signals that tell of a fault is installed, which puts back what was there before and passes
    /// the signal on to that. A service whose own handlers survive such signals should not have it. Nothing is installed
    /// without a directory.
    public var notesCrashes = true
  }

  /// What is done about the process: its launch, its shutdown, and work that does not end.
  public struct Lifecycle: Hashable, Sendable {
    /// The defaults.
    public init() {}

    /// How long the launch may take, from the start of the process to ``Watchdog/launched()``. A launch that takes longer is
    /// a stall of the main thread. At least 10 ms; default (`nil`): it may take its time.
    public var launchThreshold: Duration?

    /// How long the shutdown may take, from ``Watchdog/shuttingDown()``, or SIGTERM, to the end of the process. One that
    /// takes longer is a stall of the main thread. At least 10 ms; default (`nil`): it may take its time.
    public var shutdownThreshold: Duration?

    /// How long a work item may take before the process is ended for it: SIGABRT on the stuck thread, with the reason on
    /// standard error, after the record has been saved. At least ``Sampling/threshold``; a section's threshold counts as
    /// well, if it is longer. Default (`nil`): no process is ended.
    public var terminateAfter: Duration?

    /// Whether SIGTERM begins the shutdown; default: `false`. The service's own handler for it is called as before, and there
    /// must be one: where SIGTERM has its default action, or is ignored, blocked or read by signalfd(2), it stays so and is
    /// not noticed, and ``Watchdog/shuttingDown()`` is to be called.
    public var noticesTermination = false

    /// Whether systemd is told how the service is; default: `false`. READY=1 by ``Watchdog/launched()``, STOPPING=1 by
    /// ``Watchdog/shuttingDown()``, and, where the unit has WatchdogSec, WATCHDOG=1 as long as no source hangs. A service
    /// that tells systemd all that itself goes on doing so.
    public var notifiesSystemd = false
  }

  /// How many activities there may be, and what their handlers may take.
  public struct Activities: Hashable, Sendable {
    /// The defaults.
    public init() {}

    /// How many activities may go on at a time; default: 1,000.
    public var countMax = 1000

    /// How long the expiration handlers of activities may take that are called together, before that is itself reported;
    /// default: 1 s. At least 10 ms.
    public var expirationThreshold = Duration.seconds(1)
  }
}
