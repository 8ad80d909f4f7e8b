// What a backend takes and gives is JSON in many places: who imports PushCore has its types.
@_exported public import PushJSON
