/// How much may be kept in ``Configuration/directory``. Beyond a limit the oldest files go, those of stalls that ended well and
/// of runs that did before those of runs that did not. What belongs to a run that goes on, or to a hang that nobody has been told
/// of, stays.
public struct DirectoryLimits: Hashable, Sendable {
  /// How many bytes all files may have together; 256 MiB unless told otherwise.
  public var bytes: Int
  /// How many files there may be; 1,000 unless told otherwise.
  public var files: Int
  /// How old a file may be since it was last written; 30 days unless told otherwise.
  public var age: Duration

  /// The given limits.
  public init(bytes: Int = 256 << 20, files: Int = 1000, age: Duration = .seconds(30 * 86_400)) {
    self.bytes = bytes
    self.files = files
    self.age = age
  }
}
