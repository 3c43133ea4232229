-- Opens a kernel, saves it, and writes what Neovim then shows to a file. Run by test_neovim.py.

local job = vim.json.decode(vim.env.KERNEL_LSP_TEST)
local seen = { stages = {} }

local function finish(failure)
  seen.failure = failure
  vim.fn.writefile({ vim.json.encode(seen) }, job.result)
  vim.cmd(failure and "cquit" or "qall!")
end

local function wait(what, holds)
  if not vim.wait(job.patience_ms, holds, 50) then
    seen.log = vim.fn.filereadable(vim.lsp.get_log_path()) == 1 and vim.fn.readfile(vim.lsp.get_log_path()) or {}
    finish(what .. " never came")
  end
  table.insert(seen.stages, what)
end

local function lenses(bufnr)
  return vim.tbl_map(function(lens)
    return lens.command and lens.command.title or ""
  end, vim.lsp.codelens.get(bufnr))
end

vim.opt.runtimepath:prepend(job.config)
vim.lsp.config("kernel_lsp", { cmd = job.command, init_options = { settings = { compiledBaseline = false } } })
vim.lsp.enable("kernel_lsp")

vim.schedule(function()
  vim.cmd.edit(vim.fn.fnameescape(job.kernel))
  local bufnr = vim.api.nvim_get_current_buf()
  wait("the server", function()
    return #vim.lsp.get_clients({ bufnr = bufnr, name = "kernel_lsp" }) == 1
  end)
  wait("a finding while typing", function()
    return #vim.diagnostic.get(bufnr) > 0
  end)
  wait("a lens before the check", function()
    return vim.startswith(lenses(bufnr)[1] or "", "…")
  end)
  vim.cmd.write()
  wait("a verdict in the lens", function()
    return vim.startswith(lenses(bufnr)[1] or "", "✓ matches reference")
  end)
  seen.lenses = lenses(bufnr)
  seen.diagnostics = vim.tbl_map(function(found)
    return { code = found.code, line = found.lnum, column = found.col, message = found.message }
  end, vim.diagnostic.get(bufnr))
  seen.commands = vim.tbl_keys(vim.api.nvim_buf_get_commands(bufnr, {}))
  seen.encoding = vim.lsp.get_clients({ bufnr = bufnr })[1].offset_encoding
  finish(nil)
end)
