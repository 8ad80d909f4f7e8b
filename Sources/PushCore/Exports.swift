// What a backend takes and gives is JSON in many places: whoever imports PushCore has its words.
@_exported public import PushJSON
