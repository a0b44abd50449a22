enum StallFileFormat {
  static let magic = Array("CULPRIT\n".utf8)

  /// Readers reject files of other major versions.
  static let majorVersion: UInt16 = 1

  /// Readers skip additions of later versions: records of unknown kinds, and bytes at the end of known kinds.
  static let minorVersion: UInt16 = 0

  static let headerBytes = 16

  static let recordHeadBytes = 8

  static let recordTailBytes = 4

  static let payloadBytesMax = 1 << 20

  /// Maximum length of a list of names and of each name, which limits the size of a record. Longer lists and names are
  /// truncated.
  static let listMax = 128
  static let listedCharactersMax = 512

  enum RecordKind: UInt16 {
    case process = 1
    case module = 2
    case thread = 3
    case stack = 4
    case stallBegan = 5
    case sample = 6
    case stallEnded = 7
    case otherThread = 8
    case othersCaptured = 9
    case name = 10
    case note = 11
    case stallGoesOn = 12
    case namesLookedUp = 13
    case holder = 14
  }
}
