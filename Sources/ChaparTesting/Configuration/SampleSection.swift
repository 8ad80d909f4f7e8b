public import ChaparCore

/// A backend's section of a configuration file, for the tests of its factory: given as JSON, read like any file.
///
///     let sample = SampleSection(["url": "https://push.example"])
///     let backend = sample.make(.mine, context)
///     #expect(sample.issues.isEmpty)
public struct SampleSection {
    private struct Files: ConfigFileReader {
        let files: [String: String]

        func contents(of path: String) throws -> [UInt8] {
            guard let text = files[path] else { throw ConformanceFailure("there is no file \(path)") }
            return Array(text.utf8)
        }
    }

    /// The section.
    public let section: ConfigSection

    /// Makes a section of `keys`, at the path `backends.sample`; `files` are the files that keys can name, by their
    /// paths.
    public init(_ keys: JSONObject, files: [String: String] = [:]) {
        section = ConfigSection(
            ConfigNode(.object(keys)),
            path: "backends.sample",
            report: ConfigReport(),
            files: Files(files: files)
        )
    }

    /// The issues found while the section was read.
    public var issues: [ConfigIssue] { section.report.issues }

    /// Makes a backend as the registry does: keys that the factory did not read become issues.
    ///
    /// Returns nil after an issue.
    public func make(_ factory: BackendFactory, _ context: BackendContext) -> (any PushBackend)? {
        let backend = factory.make(section, context)
        section.finish()
        return issues.isEmpty ? backend : nil
    }
}

extension ConfigNode {
    /// Makes a value as a configuration file would have it.
    public init(_ value: JSONValue) {
        let origin = ConfigOrigin(file: "sample.yaml", line: 1, column: 1)
        switch value {
        case .null: self.init(.null, origin: origin)
        case .array(let list): self.init(.list(list.map { ConfigNode($0) }), origin: origin)
        case .object(let object):
            let entries = object.map { Entry(key: $0.name, keyOrigin: origin, node: ConfigNode($0.value)) }
            self.init(.map(entries), origin: origin)
        case .string(let text): self.init(.scalar(text), origin: origin)
        case .bool, .integer, .double: self.init(.scalar(value.text), origin: origin)
        }
    }
}
