import Foundation

/// A Markdown page of the repository: its fenced blocks, headings and links.
struct Page: Sendable {
    static let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../..")
        .standardizedFileURL

    /// A heading, with the anchor by which links name it.
    struct Heading: Sendable {
        var level: Int
        var title: String
        var anchor: String
    }

    /// A link to a place of the repository.
    struct Link: Sendable {
        var line: Int
        var target: String
        /// The file, relative to the root; the page itself when the link is an anchor alone.
        var path: String
        var anchor: String?
    }

    /// Relative to the root.
    let path: String
    let text: String
    let blocks: [Block]
    let headings: [Heading]
    let links: [Link]

    init(_ path: String) throws {
        self.path = path
        text = try String(contentsOf: Self.root.appending(path: path), encoding: .utf8)
        blocks = Block.all(in: text)
        let lines = Self.prose(text)
        headings = Self.headings(lines)
        links = Self.links(lines, of: path)
    }

    /// The README and every page under docs/.
    static func all() throws -> [Page] { try every.get() }

    /// Read once.
    private static let every = Result { () throws -> [Page] in
        let folder = root.appending(path: "docs")
        let names = FileManager.default.enumerator(atPath: folder.path)?.allObjects as? [String] ?? []
        let paths = ["README.md"] + names.filter { $0.hasSuffix(".md") }.sorted().map { "docs/\($0)" }
        return try paths.map { try Page($0) }
    }

    /// The README in other languages.
    static func translations() throws -> [Page] {
        try FileManager.default.contentsOfDirectory(atPath: root.path)
            .filter { $0.wholeMatch(of: #/README\.\w+\.md/#) != nil }.sorted().map { try Page($0) }
    }

    /// The pages that stand elsewhere, whose links are held to the same rules.
    static func others() throws -> [Page] {
        try ["CHANGELOG.md", "Plugins/README.md", "Benchmarks/README.md"].map { try Page($0) } + translations()
    }

    func section(_ anchor: String) -> Heading? { headings.first { $0.anchor == anchor } }

    /// The lines outside of fenced blocks, by number; those inside are empty.
    private static func prose(_ text: String) -> [String] {
        var isCode = false
        return text.split(separator: "\n", omittingEmptySubsequences: false).map { line in
            guard line.drop(while: { $0 == " " }).hasPrefix("```") else { return isCode ? "" : String(line) }
            isCode.toggle()
            return ""
        }
    }

    private static func headings(_ lines: [String]) -> [Heading] {
        var found: [Heading] = []
        var seen: [String: Int] = [:]
        for line in lines {
            guard let match = line.wholeMatch(of: #/(#{1,6}) (.*)/#) else { continue }
            var anchor = anchor(String(match.output.2))
            let count = seen[anchor, default: 0]
            seen[anchor] = count + 1
            if count > 0 { anchor += "-\(count)" }
            found.append(Heading(level: match.output.1.count, title: String(match.output.2), anchor: anchor))
        }
        return found
    }

    /// The anchor of a heading, as GitHub makes it.
    static func anchor(_ title: String) -> String {
        let plain = title.replacing(#/\[([^\]]*)\]\([^)]*\)/#) { String($0.output.1) }
        // Scalar by scalar: what joins two letters of Persian is none itself.
        var anchor = String.UnicodeScalarView()
        for scalar in plain.lowercased().unicodeScalars {
            switch scalar {
            case " ": anchor.append("-")
            case "-", "_": anchor.append(scalar)
            default: if scalar.properties.isAlphabetic || scalar.properties.numericType != nil { anchor.append(scalar) }
            }
        }
        return String(anchor)
    }

    private static func links(_ lines: [String], of path: String) -> [Link] {
        let folder = path.split(separator: "/").dropLast().joined(separator: "/")
        return lines.enumerated().flatMap { number, line in
            line.replacing(#/`[^`]*`/#, with: "").matches(of: #/\]\(([^)\s]+)\)/#).compactMap { match -> Link? in
                let target = String(match.output.1)
                guard !target.contains(":") else { return nil }
                let parts = target.split(separator: "#", maxSplits: 1, omittingEmptySubsequences: false)
                let file = String(parts[0])
                let whole = file.isEmpty ? "/" + path : "/" + (folder.isEmpty ? file : folder + "/" + file)
                return Link(
                    line: number + 1,
                    target: target,
                    path: String(URL(filePath: whole).standardizedFileURL.path.dropFirst()),
                    anchor: parts.count > 1 ? String(parts[1]) : nil
                )
            }
        }
    }
}
