-- SPDX-License-Identifier: Apache-2.0
-- Prints the numbers of the frames that each given display filter selects: one line per filter, at the end.
local filters = { ... }
local taps = {}
local probe = Proto("llm_filters", "display filters of a test")

local function listen(filter)
    local tap, selected = Listener.new("frame", filter), {}
    function tap.packet(pinfo) table.insert(selected, pinfo.number) end
    function tap.draw() print("filter\t" .. filter .. "\t" .. table.concat(selected, " ")) end
    return tap
end

-- A file is opened after all fields are registered, which is later than this.
local function open()
    for _, filter in ipairs(filters) do
        taps[filter] = taps[filter] or listen(filter)
    end
end
probe.init = open
