extension Watchdog {
  /// The settings of a watchdog.
  ///
  ///     var configuration = Watchdog.Configuration(threshold: .seconds(4), directory: "/var/lib/shop/stalls")
  ///     configuration.lifecycle.notifiesSystemd = true
  ///     let watchdog = try Watchdog(configuration)
  public struct Configuration: Hashable, Sendable {
    /// Thresholds and sampling.
    public var sampling = Sampling()
    /// Contents and number of reports.
    public var reporting = Reporting()
    /// Saved files.
    public var storage = Storage()
    /// Launch and shutdown, systemd, and termination of a stuck process.
    public var lifecycle = Lifecycle()
    /// Limits on activities.
    public var activities = Activities()
    /// The metrics file.
    public var metrics = Metrics()
    /// Requests from outside the process.
    public var control = Control()
    /// Whether the watchdog watches; default: `true`. ``Watchdog/reconfigure(_:)`` or the configuration file can switch
    /// it on and off. With `CULPRIT_ENABLED=no` in the environment, nothing is started or can be switched on.
    public var isEnabled = true

    /// Creates the default configuration, except for the given values.
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
  /// Thresholds and sampling.
  public struct Sampling: Hashable, Sendable {
    /// Creates the defaults.
    public init() {}

    /// The age at which a work item, such as a turn of a loop or a request, is a stall; default: 4 s. At least 10 ms.
    /// Sources can have their own thresholds.
    public var threshold = Duration.seconds(4)

    /// The age at which a stall is a hang, for work items with ``threshold``. At least the threshold; default (`nil`):
    /// 8 s, or twice the threshold if that is longer. For sources with their own thresholds, the time from threshold to
    /// hang is the same.
    public var hangThreshold: Duration?

    /// The longest average time between samples after the threshold; from 10 ms to the threshold. Default (`nil`): 1 s,
    /// or the threshold if that is shorter.
    ///
    /// Sampling starts at an eighth of the threshold. Samples are a twentieth of the threshold apart, and after the
    /// threshold a twentieth of the age, up to this interval.
    public var interval: Duration?

    /// The longest part of a stack that is copied, in bytes; default: 8 MiB. From 4 KiB to 8 MiB. Longer stacks lack
    /// their outer callers. Stacks above 128 KiB are copied one at a time.
    public var stackBytesMax = 8 << 20

    /// The CPU time available to Culprit's threads, in percent of one CPU, averaged over ten seconds; default: 5. From
    /// 1 to 100.
    ///
    /// When the budget is used up, sampling slows down, first for suspended tasks and long stalls. The eight most
    /// important work items, except suspended tasks, keep the full rate. Declaring and reporting stalls counts towards
    /// the budget but is never delayed. ``Watchdog/Status/samplesSkipped`` counts the skipped samples.
    public var cpuBudget = 5

    /// The treatment of stalls under a debugger, which might be stopping the threads; default: marked.
    public var whileDebugged = Debugged.marked

    /// The treatment of stalls under a debugger.
    public struct Debugged: Hashable, Sendable {
      private var isMarked: Bool
      /// Stalls are reported with a note about the debugger.
      public static let marked = Debugged(isMarked: true)
      /// Stalls are neither reported nor saved.
      public static let ignored = Debugged(isMarked: false)
    }
  }

  /// Contents and number of reports.
  public struct Reporting: Hashable, Sendable {
    /// Creates the defaults.
    public init() {}

    /// The highest number of stalls reported in a minute, and of leaked activities; default: 60. Further stalls are
    /// counted and saved.
    public var perMinute = 60

    /// The highest number of stalls reported in a minute with the same source and culprit, and of leaked activities
    /// with the same beginning; default: 10.
    public var perCulprit = 10

    /// The length of a line in reports, in characters; default: 100. At least 40.
    public var width = 100

    /// The approximate memory for symbols and debug information while stalls are reported, in bytes, without mapped
    /// files; default: 64 MiB. At least 1 MiB. Above the limit, tables are dropped and read again when needed.
    public var symbolBytesMax = 64 << 20

    /// Code that counts as application code, and so can be the culprit, in addition to the package being built;
    /// default: none. Names of Swift modules (`NIOCore`), packages (`swift-nio`) or shared libraries (`libshop.so`), or
    /// paths of sources or libraries with everything below them (`/srv/build/shop`).
    public var ownModules: [String] = []

    /// Functions of the application that are skipped, so their callers are the culprit; default: none. Forms:
    /// `Lock.lock()`, without labels `Lock.lock`, with the module `Shop.Lock.lock()`, with all members `Lock.*`.
    /// Functions named `lock`, `withLock`, `acquire`, `wait` and similar are skipped by default if they only wait in
    /// one blocking call; `!Lock.wait` disables this default for `Lock.wait`.
    public var wrappers: [String] = []

    /// Whether reports fetch debug information from the servers in DEBUGINFOD_URLS (debuginfod(8)); default: `false`.
    /// Requires elfutils' client library. The servers learn which programs run here. A report waits at most
    /// ``fetchPatience``, and `stop()` at most 1.5 s. The watchdog makes no other use of the network.
    public var fetchesDebugInformation = false

    /// The longest time a report waits for debug information from servers, for all files together; default: 5 s. A file
    /// that arrives later is used for the next report.
    public var fetchPatience = Duration.seconds(5)
  }

  /// Saved files.
  public struct Storage: Hashable, Sendable {
    /// Creates the defaults.
    public init() {}

    /// The directory for saved stalls, one `.stall` file each; default (`nil`): nothing is saved. Created if needed. An
    /// unusable directory is reported in ``Watchdog/Status/problems``.
    public var directory: String?

    /// The size limit for all saved stalls, in bytes; default: 256 MiB. The oldest are removed first.
    public var bytesMax = 256 << 20

    /// The highest number of saved stalls; default: 1,000. The oldest are removed first.
    public var filesMax = 1000

    /// The longest time files are kept; default: 30 days.
    public var ageMax = Duration.seconds(30 * 86_400)

    /// Whether files of stalls that ended are kept; default: `true`. Otherwise, only stalls that the process did not
    /// survive are kept.
    public var keepsRecoveredStalls = true

    /// Whether the signal that ends the process is recorded in ``directory``, for ``Watchdog/onPreviousRun(_:)``;
    /// default: `true`. Culprit then installs a handler for signals that report a fault, which calls the previous
    /// handler. Disable this in a service that leaves fault handlers by siglongjmp(3).
    public var notesCrashes = true
  }

  /// Launch and shutdown, systemd, and termination of a stuck process.
  public struct Lifecycle: Hashable, Sendable {
    /// Creates the defaults.
    public init() {}

    /// The longest time from the start of the program to ``Watchdog/launched()``; at least 10 ms. Default (`nil`): no
    /// limit. A longer launch is a stall of the main thread.
    public var launchThreshold: Duration?

    /// The longest time from ``Watchdog/shuttingDown()`` or SIGTERM to the end of the process; at least 10 ms. Default
    /// (`nil`): no limit. A longer shutdown is a stall of the main thread.
    public var shutdownThreshold: Duration?

    /// The age at which a stall ends the process, at least ``Sampling/threshold``; default (`nil`): never. The record
    /// is saved, the reason is printed to standard error, and SIGABRT is sent to the stuck thread. The work item must
    /// also have passed its own threshold.
    public var terminateAfter: Duration?

    /// Whether SIGTERM begins the shutdown; default: `false`. The service must have a SIGTERM handler, which is still
    /// called. If SIGTERM has its default action, is ignored, is blocked or is read by signalfd(2), Culprit cannot
    /// detect it; call ``Watchdog/shuttingDown()`` instead.
    public var noticesTermination = false

    /// Whether Culprit notifies systemd; default: `false`. ``Watchdog/launched()`` sends READY=1, and
    /// ``Watchdog/shuttingDown()`` sends STOPPING=1. If the unit has WatchdogSec, WATCHDOG=1 is sent while no source
    /// hangs. Leave this off if the service notifies systemd itself.
    public var notifiesSystemd = false
  }

  /// Limits on activities.
  public struct Activities: Hashable, Sendable {
    /// Creates the defaults.
    public init() {}

    /// The highest number of activities in progress at a time; default: 1,000.
    public var countMax = 1000

    /// The longest time for expiration handlers that are called together; exceeding it is a stall. Default: 1 s. At
    /// least 10 ms.
    public var expirationThreshold = Duration.seconds(1)
  }

  /// The metrics file. ``Watchdog/metrics`` is available without it.
  public struct Metrics: Hashable, Sendable {
    /// Creates the defaults.
    public init() {}

    /// The path of a file for node_exporter's textfile collector, which reads `.prom` files; default (`nil`): none.
    /// Replaced atomically. A failed write is reported in ``Watchdog/Status/problems``.
    public var file: String?

    /// The time between two writes of the file; default and minimum: 15 s.
    public var interval = Duration.seconds(15)

    /// Labels that distinguish this service from others with the same collector; default (none): `service`, with the
    /// name of the executable. Processes of one service need different labels and files.
    public var labels: [String: String] = [:]
  }

  /// Requests from outside the process.
  public struct Control: Hashable, Sendable {
    /// Creates the defaults.
    public init() {}

    /// Whether the process answers `culprit dump` and `culprit report`; default: `false`. A thread listens on a Unix
    /// socket in ``Storage/directory`` or, without one, in `$XDG_RUNTIME_DIR`, for root and the user of the process. A
    /// failure is reported in ``Watchdog/Status/problems``.
    public var isEnabled = false
  }
}
