public import Foundation

/// Which property list holds the versions: the client library's way to name it.
public struct PlistFileConfiguration: Sendable, Hashable {
    /// The folder, which stands for the app's bundle.
    public var folder: URL
    /// The file's name without the extension `plist`.
    public var fileName: String

    /// Makes one; the name is the library's default unless given.
    public init(folder: URL, fileName: String = "Versions") {
        self.folder = folder
        self.fileName = fileName
    }

    /// The file.
    public var file: URL { folder.appendingPathComponent(fileName).appendingPathExtension("plist") }
}

extension ReleaseNotesReader {
    /// Reads the property list of a configuration; bad items are skipped, with a warning each.
    public static func read(_ configuration: PlistFileConfiguration) throws(Failure) -> Reading {
        try read(file: configuration.file, mode: .lenient)
    }
}
