extension Watchdog {
  /// How a watchdog watches: what counts as a stall, how stalls are reported and saved, and what they lead to.
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
    /// Launch and shutdown, systemd, and the end of a process that is stuck.
    public var lifecycle = Lifecycle()
    /// Limits on activities.
    public var activities = Activities()
    /// Where metrics are written.
    public var metrics = Metrics()
    /// Whether anything is watched; default: `true`. A watchdog that is switched off keeps its idle threads;
    /// ``Watchdog/reconfigure(_:)`` or the configuration file can switch it on. With `CULPRIT_ENABLED=no` in the
    /// environment, nothing is started, and nothing can switch it on.
    public var isEnabled = true

    /// The default configuration, but for the given values.
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

    /// The age at which a work item is a stall; default: 4 s. At least 10 ms.
    ///
    /// Loops and other sources can have thresholds of their own, and sections always have.
    public var threshold = Duration.seconds(4)

    /// The age at which a stall is a hang, for work items with ``threshold``; at least the threshold. Default (`nil`):
    /// 8 s, or twice the threshold where that is longer. Sources with thresholds of their own hang as long after those.
    public var hangThreshold: Duration?

    /// The most time between samples after the threshold, on average; from 10 ms to the threshold. Default (`nil`): 1 s,
    /// or the threshold where that is shorter.
    ///
    /// Before the threshold a sample is taken every twentieth of it, from an eighth of it on: the record must also have
    /// the code that finished before the threshold was passed. From the threshold on it is a twentieth of the age, until
    /// that is this interval.
    public var interval: Duration?

    /// The most bytes of a stack that are copied; default: 8 MiB. From 4 KiB to 8 MiB. Deeper callers are missing, and
    /// the report says so. Of stacks deeper than 128 KiB one is copied whole at a time; the memory for it is used only
    /// while there are such stacks.
    public var stackBytesMax = 8 << 20

    /// The processor time that Culprit's threads may use, in percent of one processor, averaged over ten seconds; default: 5. From
    /// 1 to 100.
    ///
    /// It matters while much work is late at once. Samples are then taken less often, of the least important work first: of
    /// suspended tasks, and of stalls that have lasted for long. The eight most important work items are sampled as often as
    /// ever, unless they are suspended tasks. Declarations and reports count, and are not held back. Reports say how many samples were not taken, and ``Watchdog/Status/samplesSpared`` counts them.
    public var cpuBudget = 5

    /// How stalls under a debugger are treated; default: marked.
    public var whileDebugged = Debugged.marked

    /// How stalls are treated while a debugger is attached, which may be what stops the threads.
    public struct Debugged: Hashable, Sendable {
      private var isMarked: Bool
      /// They are reported, and the report says so.
      public static let marked = Debugged(isMarked: true)
      /// They are neither reported nor saved.
      public static let ignored = Debugged(isMarked: false)
    }
  }

  /// How stalls are reported.
  public struct Reporting: Hashable, Sendable {
    /// The defaults.
    public init() {}

    /// The most stalls that are reported in a minute, and the most leaked activities; default: 60. Further ones are counted, and
    /// stalls are saved all the same.
    public var perMinute = 60

    /// The most of these with the same source and culprit, or of activities that began in the same place; default: 10.
    public var perCulprit = 10

    /// The length of a line in reports, in characters; default: 100. At least 40.
    public var width = 100

    /// The memory for symbols and debug information while stalls are reported, in bytes, about; default: 64 MiB. At
    /// least 1 MiB. Beyond it, tables are dropped and read again when needed. Mapped files do not count: the kernel
    /// takes that memory back when it is short.
    public var symbolBytesMax = 64 << 20

    /// Code that counts as the application's own beside the package that is built; default: none. Names of Swift
    /// modules (`NIOCore`), of packages that it depends on (`swift-nio`), of shared libraries (`libshop.so`), or paths
    /// of sources or libraries, with everything below them (`/srv/build/shop`). Only own code can be the culprit.
    public var ownModules: [String] = []

    /// The application's own functions that are passed over, so that their callers are blamed; default: none.
    /// `Lock.lock()`, without labels `Lock.lock`, with the module `Shop.Lock.lock()`, with everything behind it
    /// `Lock.*`. Functions called `lock`, `withLock`, `acquire`, `wait` and the like are passed over without being
    /// named, if they only wait in one blocking call. With an exclamation mark, `!Lock.wait`, they are not.
    public var wrappers: [String] = []

    /// Whether the debug information for reports is fetched from the servers in DEBUGINFOD_URLS (debuginfod(8)), where
    /// elfutils' client library is installed; default: `false`. Those servers learn what runs here, and may be slow: a
    /// thread of its own fetches, a report waits no longer than ``fetchPatience``, and `stop()` no longer than 1.5 s.
    /// Otherwise no part of the watchdog uses the network.
    public var fetchesDebugInformation = false

    /// How long a report waits for debug information from servers, all its files together; default: 5 s. A file that
    /// comes later serves the next report.
    public var fetchPatience = Duration.seconds(5)
  }

  /// What is saved, and where.
  public struct Storage: Hashable, Sendable {
    /// The defaults.
    public init() {}

    /// The directory that stalls are saved in, one `.stall` file each; default (`nil`): nothing is saved. It is made
    /// when it does not exist. A directory that cannot be used is reported in ``Watchdog/Status/problems``.
    public var directory: String?

    /// The most bytes of all files of stalls together; default: 256 MiB. The oldest are removed first.
    public var bytesMax = 256 << 20

    /// The most stalls that are kept; default: 1,000. The oldest are removed first.
    public var filesMax = 1000

    /// How long files are kept; default: 30 days.
    public var ageMax = Duration.seconds(30 * 86_400)

    /// Whether the files of stalls that ended are kept; default: `true`. Otherwise only stalls that the process did not
    /// survive are.
    public var keepsRecoveredStalls = true

    /// Whether the signal that ends the process is noted in ``directory``, for ``Watchdog/onPreviousRun(_:)``; default:
    /// `true`. It takes a handler for the signals that report a fault, which passes the signal on to the handler that
    /// was there before. Switch it off in a service that leaves faults by siglongjmp(3). Without a directory nothing is
    /// installed.
    public var notesCrashes = true
  }

  /// Launch and shutdown, systemd, and the end of a process that is stuck.
  public struct Lifecycle: Hashable, Sendable {
    /// The defaults.
    public init() {}

    /// How long the launch may take, from the start of the program to ``Watchdog/launched()``; at least 10 ms. Default
    /// (`nil`): no limit. A launch that takes longer is a stall of the main thread.
    public var launchThreshold: Duration?

    /// How long the shutdown may take, from ``Watchdog/shuttingDown()`` or SIGTERM to the end of the process; at least
    /// 10 ms. Default (`nil`): no limit. A shutdown that takes longer is a stall of the main thread.
    public var shutdownThreshold: Duration?

    /// The age at which a stall ends the process, at least ``Sampling/threshold``; default (`nil`): never. The record
    /// is saved, the reason goes to standard error, and SIGABRT to the stuck thread. A work item must also have passed
    /// its own threshold.
    public var terminateAfter: Duration?

    /// Whether SIGTERM begins the shutdown; default: `false`. It takes a handler of the service's own, which is called
    /// as before. Where SIGTERM has its default action, or is ignored, blocked or read by signalfd(2), nothing changes
    /// and nothing is noticed: call ``Watchdog/shuttingDown()``.
    public var noticesTermination = false

    /// Whether Culprit notifies systemd; default: `false`. ``Watchdog/launched()`` sends READY=1,
    /// ``Watchdog/shuttingDown()`` sends STOPPING=1, and, where the unit has WatchdogSec, WATCHDOG=1 is sent while no
    /// source hangs. Leave it off in a service that notifies systemd itself.
    public var notifiesSystemd = false
  }

  /// Limits on activities.
  public struct Activities: Hashable, Sendable {
    /// The defaults.
    public init() {}

    /// The most activities that may go on at a time; default: 1,000.
    public var countMax = 1000

    /// How long expiration handlers that are called together may take before that is a stall of its own; default: 1 s.
    /// At least 10 ms.
    public var expirationThreshold = Duration.seconds(1)
  }

  /// Where metrics are written. ``Watchdog/metrics`` has them at any time.
  public struct Metrics: Hashable, Sendable {
    /// The defaults.
    public init() {}

    /// The path of the file that metrics are written to for node_exporter's textfile collector, which reads files that
    /// end in `.prom`; default (`nil`): none. The file is replaced as a whole. A file that cannot be written is reported
    /// in ``Watchdog/Status/problems``.
    public var file: String?

    /// The time between two files; default: 15 s, which is also the least.
    public var interval = Duration.seconds(15)

    /// Labels that tell the numbers in the file from those of other services with the same collector; default (none):
    /// `service`, the name of the executable. Processes of the same service need labels that differ, and files as well.
    public var labels: [String: String] = [:]
  }
}
